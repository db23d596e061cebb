// Package action is the runner's half of the GitHub Action: from a checkout to the
// file of runs that is uploaded.
//
// The flow, in order:
//
//  1. [ReadInputs] reads what the workflow says, [ReadEvent] what it runs for, and
//     which events are refused: one job is one trust domain.
//  2. [Stage] builds head and base as the runner's user, and copies the objects,
//     the config and its captures into a directory. A [Plan] says what is what.
//     Nothing else ever enters the measuring container.
//  3. [Container.Run] measures in a container that has no token, no checkout, no
//     network and no writable file of the host. The runs come back through its
//     standard output, as one bundle of limited size.
//  4. [Outputs] tells the next steps of the job where the bundle lies.
//
// What others wrote (build output, verifier logs, messages of the container) goes
// to the log through a [Log] alone, which lets no workflow command through.
//
// The package holds no token and speaks with no forge; package internal/github
// does, in a job of its own. It judges nothing.
//
// Note: there is no writable directory that the container shares with the host. A
// size-capped one takes root on the runner, and every reader of it has to fear
// symlinks, pipes and floods. A stream has neither names nor a size that we do not
// choose, and it works with a Docker engine on another machine.
package action
