// Package github speaks with a forge: GitHub, GitHub Enterprise and, as far as
// their API goes, Gitea and Forgejo.
//
// The flow of a report, in order:
//
//  1. [ReadEvent] tells what the workflow runs for, and refuses events in which
//     a stranger's code could reach a token.
//  2. [Client.Artifacts] and [Client.Download] fetch the runs of the measuring
//     jobs, [Client.History] the roll-up of the base branch: only from workflow
//     runs that the API's own word makes trusted.
//  3. Package gate judges, package internal/render writes.
//  4. [Client.Comment], [Client.Status] and [Annotate] tell.
//
// Trust comes from the API and from the event, never from a name or from the
// content of an artifact, which any pull request can choose. The package judges
// nothing, prints nothing but workflow commands (to the writer it is given), and
// sends the token nowhere but to the API.
package github
