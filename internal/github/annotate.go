package github

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	actions "github.com/sethvargo/go-githubactions"
)

// MaxSummary is the size of a job summary in bytes, all steps of the job together
// kept below GitHub's 1 MiB.
const MaxSummary = 1<<20 - 64<<10

// maxAnnotations is what GitHub shows of one step, of each level.
const maxAnnotations = 10

// An Annotation is a remark at a line of the source.
type Annotation struct {
	Error bool   // else a warning
	File  string // from the top of the repository; empty: at no line
	Line  int    // from 1
	Title string
	Text  string
}

// Annotate writes annotations as workflow commands, at most ten errors and ten
// warnings; where there are more of a level, its tenth says how many.
func Annotate(w io.Writer, all []Annotation) {
	count, shown := map[bool]int{}, map[bool]int{}
	for _, a := range all {
		count[a.Error]++
	}
	for _, a := range all {
		shown[a.Error]++
		switch more := count[a.Error] - maxAnnotations + 1; {
		case shown[a.Error] > maxAnnotations:
			continue
		case shown[a.Error] == maxAnnotations && more > 1:
			a = Annotation{Error: a.Error, Title: fmt.Sprintf("%d more", more), Text: "the job's summary has all of them"}
		}
		act := actions.New(actions.WithWriter(w))
		fields := map[string]string{"title": shorten(a.Title, 120)}
		if a.File != "" && a.Line > 0 {
			fields["file"], fields["line"] = a.File, strconv.Itoa(a.Line)
		}
		act = act.WithFieldsMap(fields)
		// go-githubactions formats, and the text may hold a '%'.
		if a.Error {
			act.Errorf("%s", shorten(a.Text, 400))
		} else {
			act.Warningf("%s", shorten(a.Text, 400))
		}
	}
}

// Outputs are what a step may hand on: words, numbers and paths of our own making.
// A pull request's text in an output would be a way into the scripts of the next
// step.
type Outputs map[string]string

// harmless are the characters of outputs, of which maxOutput has room.
//
// Note: no {0,1000}. It takes as long to compile as all else that gate does before it
// begins.
var harmless = regexp.MustCompile(`^[A-Za-z0-9 _./:#@~+-]*$`)

const maxOutput = 1000 // bytes

// Write appends the outputs to the file that GITHUB_OUTPUT names; without one it
// does nothing. A value of other characters is an error.
func (o Outputs) Write(getenv func(string) string) (err error) {
	if getenv("GITHUB_OUTPUT") == "" {
		return nil
	}
	defer caught(&err, "write the outputs")
	act := actions.New(actions.WithGetenv(getenv))
	for k, v := range o {
		if len(v) > maxOutput || !harmless.MatchString(v) {
			return fmt.Errorf("write the outputs: %s is %.40q, which is not handed on", k, v)
		}
		act.SetOutput(k, v)
	}
	return nil
}

// Summary appends Markdown to the job's summary, the file that GITHUB_STEP_SUMMARY
// names; false where there is none. More than [MaxSummary] in that file is an
// error: GitHub would show none of it.
func Summary(getenv func(string) string, markdown string) (written bool, err error) {
	name := getenv("GITHUB_STEP_SUMMARY")
	if name == "" {
		return false, nil
	}
	if info, err := os.Stat(name); err == nil && info.Size()+int64(len(markdown)) > MaxSummary {
		return false, fmt.Errorf("write the summary: %d KB, at most %d", (info.Size()+int64(len(markdown)))>>10, MaxSummary>>10)
	}
	defer caught(&err, "write the summary")
	actions.New(actions.WithGetenv(getenv)).AddStepSummary(markdown)
	return true, nil
}

// caught turns the panic by which go-githubactions tells that it could not write
// into an error.
func caught(err *error, what string) {
	if r := recover(); r != nil {
		if e, ok := r.(error); ok {
			*err = fmt.Errorf("%s: %w", what, e)
			return
		}
		*err = errors.New(what + ": " + fmt.Sprint(r))
	}
}
