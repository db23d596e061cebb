// Package action tries the GitHub Action with real parts: nektos/act runs the
// workflows, a Docker engine the measuring container, GitHub's own client uploads
// the runs, Gitea hands out the jobs and shows what they report, and the kernel at
// hand measures. scripts/test-action.sh sets all of that up; without it every test
// here skips.
//
// What stands in for something else: act has actions/checkout done before a job
// (runner_test.go, jobs_test.go), a step with GitHub's client is
// actions/upload-artifact (scripts/action/testdata), and this process is the runner
// that Gitea knows (jobs_test.go). What Gitea does not have is tested against an
// httptest server, in packages internal/github and internal/cli.
package action
