package render

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/org/ebpf-bench-gate/internal/testkernel"
)

// A browser is a real one, that remembers what a page did besides showing itself.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu        sync.Mutex
	complaint []string // errors of scripts, breaches of the policy, requests, dialogs
}

// openBrowser starts Chromium without a window. It ends with the test.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	testkernel.Require(t, testkernel.Browser)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(testkernel.BrowserPath()), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // it is run as root
		chromedp.WSURLReadTimeout(2*time.Minute), chromedp.WindowSize(1280, 900))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // that it hangs, not how fast it is
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complain("exception: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.complain("console: %s", e.Type)
		case *log.EventEntryAdded:
			b.complain("log: %s", e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file:///") || e.Type != network.ResourceTypeDocument {
				b.complain("request: %s", e.Request.URL)
			}
		case *cdpage.EventJavascriptDialogOpening:
			b.complain("dialog: %s", e.Message)
		}
	}); err != nil {
		t.Fatal(err)
	}
	b.do(command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}), command(runtime.Enable, cdp.Empty{}))
	return b
}

func (b *browser) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaint = append(b.complaint, fmt.Sprintf(format, args...))
}

// quiet holds that the page did nothing but show itself.
func (b *browser) quiet(what string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaint {
		b.t.Errorf("%s: %s", what, c)
	}
	b.complaint = nil
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// command is a step of the browser's own protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

// script runs statements in the page.
func script(code string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool](code+"; true")(ctx, t)
		return chromedp.Void{}, err
	}
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// show opens a page that is written to a file, as people do.
func (b *browser) show(page, fragment string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Navigate("file://" + file + fragment))
}

// ask is what an expression has in the page.
func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// is holds that an expression has a value.
func is[T comparable](b *browser, expression string, want T) {
	b.t.Helper()
	if got := ask[T](b, expression); got != want {
		b.t.Errorf("%s is %v, want %v", expression, got, want)
	}
}

const shownRows = `[...document.querySelectorAll(".rows > tbody > tr:not(.detail)")].filter(r => r.checkVisibility()).length`

// TestPageInBrowser uses a page as a reader does: by filters, order, pointer, keys and
// its address.
func TestPageInBrowser(t *testing.T) {
	b := openBrowser(t)
	r := pageOf(24, 30, 40)
	b.show(writePage(t, []PageReport{r}, 0), "")
	is(b, "document.title", "FAIL: head 0000000")
	is(b, `document.querySelector("h1").textContent`, r.Report.Summary)
	is(b, shownRows, 24)

	// Filters.
	b.do(chromedp.SendKeys(chromedp.CSS("#find"), "case-010 LATENCY"))
	is(b, shownRows, 1)
	is(b, `document.querySelector("#count").textContent`, "1 of 24")
	b.do(chromedp.KeyEvent(kb.Escape))
	is(b, shownRows, 24)
	b.do(click(`.chip[data-kind="pass"]`))
	choose := func(measure string) chromedp.Action[chromedp.Void] {
		return script(`var m = document.querySelector("#measure"); m.value = "` + measure + `"; m.dispatchEvent(new Event("input"))`)
	}
	passed := 24 - ask[int](b, shownRows)
	is(b, `+document.querySelector('.chip[data-kind="pass"] b').textContent`, passed)
	b.do(click(`.chip[data-kind="pass"]`), choose("insns"))
	is(b, shownRows, 12)
	b.do(choose(""))

	// Order.
	first := `document.querySelector(".rows > tbody > tr .name").textContent`
	b.do(click(`[data-by="name"]`))
	is(b, first, "lb/case-000")
	b.do(click(`[data-by="name"]`))
	is(b, first, "lb/case-011")
	b.do(click(`[data-by="order"]`))
	is(b, first, r.Report.Comparisons[0].Benchmark)

	// A row opens, with every plot, and closes.
	b.do(click("#c0 .change"))
	is(b, `document.querySelector("#c0 button").getAttribute("aria-expanded")`, "true")
	is(b, `document.querySelectorAll(".detail figure svg[role=img][aria-label]").length`, 4)
	is(b, `document.querySelectorAll(".detail path.ridge").length`, 2)
	is(b, `document.querySelectorAll(".detail path.cp").length`, 1)
	is(b, `document.querySelector(".detail .dots.base").getAttribute("d").split("M").length - 1`, 30)
	is(b, "location.hash", "#c0")
	is(b, `[...document.querySelectorAll(".detail path, .detail circle, .detail text, .detail rect")].some(e => /NaN|undefined|Infinity/.test(e.outerHTML))`, false)
	// What is near the pointer is told.
	b.do(script(`(() => {
		const svg = document.querySelectorAll(".detail figure svg")[1], box = svg.getBoundingClientRect();
		const [x, y] = svg.querySelector(".dots.head").getAttribute("d").slice(1).split("h")[0].split(" ").map(Number);
		svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x * box.width / svg.viewBox.baseVal.width, clientY: box.top + y * box.height / svg.viewBox.baseVal.height}));
	})()`))
	if told := ask[string](b, `document.querySelectorAll(".detail output")[1].textContent`); !strings.HasPrefix(told, "round 0, head: ") || !strings.HasSuffix(told, " ns") {
		t.Errorf("the pointer is told %q", told)
	}
	b.do(click("#c0 .name"))
	is(b, `document.querySelectorAll(".detail").length`, 0)

	// Keys: down twice, open, filter, theme.
	b.do(script(`document.activeElement.blur()`), chromedp.KeyEvent("jj"))
	is(b, `document.activeElement.closest("tr").id`, "c1")
	b.do(chromedp.KeyEvent(kb.Enter))
	is(b, `document.querySelectorAll("#c1 + .detail .source tbody tr").length`, 2) // a line and a place of a profile
	b.do(chromedp.KeyEvent("k"))
	is(b, `document.activeElement.closest("tr").id`, "c0")
	b.do(chromedp.KeyEvent("/"))
	is(b, "document.activeElement.id", "find")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("t"))
	is(b, "document.documentElement.dataset.theme", "light")
	b.quiet("a page")

	// An address opens its row, also one that the filters hide.
	b.show(writePage(t, []PageReport{{Report: reports()["mixed"]}}, 0), "#c9")
	is(b, `document.querySelector("#c9 + .detail") !== null && document.querySelector("#c9").checkVisibility()`, true)
	b.quiet("a page with a fragment")
}

// TestPageThemesAndSizes holds that a page follows the system's theme, and that on a
// phone nothing is wider than the screen, whatever is open.
func TestPageThemesAndSizes(t *testing.T) {
	b := openBrowser(t)
	r := pageOf(24, 30, 40)
	r.Report.Comparisons[2].Benchmark = strings.Repeat("long_name_", 20)
	page := writePage(t, []PageReport{r, {Report: reports()["mixed"]}}, 1)
	scheme := func(name string) chromedp.Action[chromedp.Void] {
		return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	}
	colors := map[string]string{}
	for _, theme := range []string{"light", "dark"} {
		b.do(scheme(theme))
		b.show(page, "#c0")
		colors[theme] = ask[string](b, "getComputedStyle(document.body).backgroundColor")
		for what, pair := range map[string][2]string{
			"text": {"body", "color"}, "dim text": {".about", "color"}, "verdict": {".bad td.word", "color"}, "chip": {".chip.good", "color"}, "side": {".detail text.side.head", "fill"},
		} {
			if ratio := ask[float64](b, fmt.Sprintf(contrast, pair[0], pair[1])); ratio < 4.5 {
				t.Errorf("%s: the contrast of %s is %.1f", theme, what, ratio)
			}
		}
	}
	if colors["light"] == colors["dark"] {
		t.Errorf("both themes are %s", colors["light"])
	}
	for _, width := range []int64{360, 320, 768} {
		b.do(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 780, DeviceScaleFactor: 2, Mobile: width < 700}))
		b.show(page, "")
		b.do(script(`document.querySelectorAll(".name").forEach((n, i) => i < 8 && n.click())`))
		is(b, `document.querySelectorAll(".detail").length`, 8)
		if got := ask[int64](b, "document.scrollingElement.scrollWidth"); got > width {
			t.Errorf("the page is %d wide on a screen of %d: %s", got, width, ask[string](b, widest))
		}
	}
	b.quiet("a page")
	b.picture(page, scheme)
}

// picture takes pictures to look at into the directory that GATE_PAGES names.
func (b *browser) picture(page string, scheme func(string) chromedp.Action[chromedp.Void]) {
	dir := os.Getenv("GATE_PAGES")
	if dir == "" {
		return
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 1280} {
			b.do(scheme(theme), command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 1400, DeviceScaleFactor: 1, Mobile: width < 700}))
			b.show(page, "")
			b.do(script(`document.querySelectorAll(".name").forEach((n, i) => (i === 1 || i === 4) && n.click())`))
			shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", theme, width)), shot, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// widest are the elements that stand out on the right.
const widest = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll")).slice(0, 5).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 60)).join("; ")`

// contrast is that of WCAG 2, between an element and the page behind it.
const contrast = `(() => {
	const rgb = c => { const x = document.createElement("canvas").getContext("2d", {willReadFrequently: true}); x.fillStyle = c; x.fillRect(0, 0, 1, 1); return [...x.getImageData(0, 0, 1, 1).data]; };
	const light = c => { const [r, g, b] = rgb(c).slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const [a, b] = [light(getComputedStyle(document.querySelector(%q))[%q]), light(getComputedStyle(document.body).backgroundColor)].sort((x, y) => y - x);
	return (a + 0.05) / (b + 0.05);
})()`

// TestPageHostileInBrowser opens pages whose every name wants to be something else, and
// opens every row of them.
func TestPageHostileInBrowser(t *testing.T) {
	b := openBrowser(t)
	for _, s := range append(hostile[:len(hostile):len(hostile)],
		`<img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `</script><script>alert(1)</script>`, `</style><script>alert(1)</script>`,
		`<!--<script>`, `\u003cscript>alert(1)</script>`, "__proto__", "constructor", `" autofocus onfocus=alert(1) x="`) {
		r := pageOf(4, 20, 12)
		for i := range r.Report.Comparisons {
			r.Report.Comparisons[i].Reason, r.Report.Comparisons[i].Warnings = s, []string{s}
			for k := range r.Report.Comparisons[i].Lines {
				l := &r.Report.Comparisons[i].Lines[k]
				l.File, l.Text, l.Function = s, s, s
			}
			for k := range r.Report.Comparisons[i].Sites {
				l := &r.Report.Comparisons[i].Sites[k]
				l.File, l.Text, l.Stack = s, s, []string{s}
			}
		}
		for _, run := range r.Past {
			run.Revision.Name, run.Revision.Commit, run.Revision.Branch = s, "", s
		}
		b.show(writePage(t, []PageReport{{Report: hostileReport(s)}, r}, 0), "")
		b.do(script(`document.querySelectorAll(".chip").forEach(c => c.getAttribute("aria-pressed") === "true" || c.click())`),
			script(`document.querySelectorAll(".name").forEach(n => n.click())`))
		is(b, `document.querySelectorAll(".detail").length`, len(hostileReport(s).Comparisons)+4)
		is(b, `document.querySelectorAll("img, iframe, object, embed, link, base, script").length`, 2)
		b.quiet(fmt.Sprintf("%.40q", s))
	}
}

// TestPageWithoutScript holds that the verdict and every comparison are there for those
// who have no JavaScript.
func TestPageWithoutScript(t *testing.T) {
	b := openBrowser(t)
	b.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.show(writePage(t, []PageReport{{Report: reports()["mixed"]}}, 0), "")
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fun_xdp/worst is 2.40× slower", "236.9 ns", "verified_insns", "Plots, filters and sorting need JavaScript"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	b.quiet("a page without script")
}
