package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/org/ebpf-bench-gate/internal/push"
)

func (c Command) push() *cobra.Command {
	var dir, bencher, project, prometheus, job string
	cmd := &cobra.Command{
		Use:   "push RUN",
		Short: "Send a run to a Bencher server or to Prometheus",
		Long: `Push sends RUN, a file (of gate, or of another tool) or the ID of a stored run, to

  --bencher URL     a server of Bencher, as a report of the project: medians and
                    quartiles, with branch, testbed and commit. The token is read from
                    BENCHER_API_TOKEN, or BENCHER_API_KEY.
  --prometheus URL  a push gateway of Prometheus: what gate export --format openmetrics
                    writes, in place of what the gateway had of the branch and testbed.
                    PROMETHEUS_USERNAME and PROMETHEUS_PASSWORD are used where they are set.`,
		Example: `  gate push --bencher https://api.bencher.dev --project PROJECT head.json
  gate push --prometheus http://GATEWAY:9091 head.json`,
		Args: takes("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case bencher == "" && prometheus == "":
				return misused(cmd, errors.New("gate push: neither --bencher nor --prometheus says where to"))
			case bencher != "" && project == "":
				return usage("--bencher: --project says which project, or BENCHER_PROJECT")
			}
			run, err := c.fileOrStored(cmd, args[0], dir)
			if err != nil {
				return err
			}
			if bencher != "" {
				to := push.Bencher{URL: bencher, Project: project, Token: cmp.Or(os.Getenv("BENCHER_API_TOKEN"), os.Getenv("BENCHER_API_KEY"))}
				answer, err := to.Push(cmd.Context(), run)
				if err != nil {
					return unmeasured(fmt.Errorf("push to Bencher: %w", err))
				}
				fmt.Fprintf(c.Stdout, "report %s, %d alerts\n", plain(answer.UUID), len(answer.Alerts))
			}
			if prometheus != "" {
				to := push.Gateway{URL: prometheus, Job: job, User: os.Getenv("PROMETHEUS_USERNAME"), Password: os.Getenv("PROMETHEUS_PASSWORD")}
				if err := to.Push(cmd.Context(), run); err != nil {
					return unmeasured(fmt.Errorf("push to Prometheus: %w", err))
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&bencher, "bencher", "", "`URL` of the API of a Bencher server")
	f.StringVar(&project, "project", os.Getenv("BENCHER_PROJECT"), "slug or UUID of the `PROJECT` at Bencher (default: BENCHER_PROJECT)")
	f.StringVar(&prometheus, "prometheus", "", "`URL` of a push gateway of Prometheus")
	f.StringVar(&job, "job", "ebpf-bench", "`NAME` of the job at the push gateway")
	storeFlag(f, &dir)
	return cmd
}
