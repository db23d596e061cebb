// Package action tries the GitHub Action with real parts: nektos/act runs the
// workflows, a Docker engine the measuring container, GitHub's own client uploads
// the runs, and the kernel at hand measures. scripts/test-action.sh sets all of
// that up; without it every test here skips.
package action
