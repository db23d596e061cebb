package test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"
)

// s3 starts a server of S3's protocol, whose bucket $store names, and of which the
// environment has the credentials: with readonly, such that may only read.
func s3(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 || len(args) == 1 && args[0] != "readonly" {
		ts.Fatalf("usage: s3 [readonly]")
	}
	objects := s3mem.New()
	ts.Check(objects.CreateBucket("benchmarks"))
	handler := gofakes3.New(objects).Server()
	if len(args) == 1 {
		all := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				all.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
		})
	}
	server := serve(ts, handler)
	ts.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	ts.Setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-told")
	ts.Setenv("store", "s3://benchmarks/gate?region=eu-central-1&endpoint="+url.QueryEscape(server.URL))
}

// inbox starts a server at $inbox that takes everything, and writes the path and the
// content of what it was sent last into a file.
func inbox(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: inbox FILE")
	}
	file := ts.MkAbs(args[0])
	server := serve(ts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = os.WriteFile(filepath.Clean(file), append([]byte(r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+"\n"), body...), 0o600)
		_, _ = io.WriteString(w, `{"uuid":"11111111-2222-3333-4444-555555555555","alerts":[]}`)
	}))
	ts.Setenv("inbox", server.URL)
}

// serve starts a server that ends with the script. Its connections are no leak.
func serve(ts *testscript.TestScript, h http.Handler) *httptest.Server {
	server := httptest.NewServer(h)
	ts.Value(theT{}).(*testing.T).Cleanup(server.Close)
	return server
}
