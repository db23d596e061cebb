package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// A URLError is that a URL does not name a store. These do, each with a PREFIX of the
// names of objects where a path follows:
//
//	s3://BUCKET?region=R&endpoint=URL   also profile, use_path_style, accelerate,
//	                                    dualstack, fips, anonymous, ssetype, kmskeyid
//	gs://BUCKET                         also anonymous
//	azblob://CONTAINER                  also storage_account, domain, protocol, localemu
//	file:///DIRECTORY                   the directory
//	mem://                              in this process alone, empty at each opening
type URLError struct{ text, hint string }

func (e *URLError) Error() string { return e.text }

// Hint says what would do.
func (e *URLError) Hint() string { return e.hint }

// parameters are those that a URL may have. Secrets are none of them.
var parameters = map[string][]string{
	"s3": {"region", "endpoint", "profile", "use_path_style", "disable_https", "accelerate", "dualstack", "fips", "anonymous",
		"ssetype", "kmskeyid", "request_checksum_calculation", "response_checksum_validation"},
	"gs":     {"anonymous"},
	"azblob": {"storage_account", "domain", "protocol", "localemu"},
	"file":   {},
	"mem":    {},
}

// parseURL takes a URL apart and never repeats what may be a secret.
func parseURL(where string) (*url.URL, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, &URLError{text: "that is no URL of a store", hint: "s3://BUCKET, gs://BUCKET, azblob://CONTAINER or a directory"}
	}
	known, ok := parameters[u.Scheme]
	if !ok {
		return nil, &URLError{text: fmt.Sprintf("%.20q is no kind of store", u.Scheme), hint: "s3://BUCKET, gs://BUCKET, azblob://CONTAINER or a directory"}
	}
	const fromEnv = "the environment has them, as for the cloud's own tools: AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_KEY, …"
	if u.User != nil {
		return nil, &URLError{text: "no credentials in a URL, which others read", hint: fromEnv}
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, &URLError{text: "the parameters of the URL cannot be read"}
	}
	for name := range q {
		if !slices.Contains(known, name) {
			return nil, &URLError{text: fmt.Sprintf("%.40q is no parameter of %s://", name, u.Scheme), hint: "there are " + strings.Join(known, ", ") + "; of credentials, " + fromEnv}
		}
	}
	if e, err := url.Parse(q.Get("endpoint")); err != nil || e.User != nil {
		return nil, &URLError{text: "the endpoint is no URL, or has credentials in it", hint: fromEnv}
	}
	if u.Host == "" && u.Scheme != "file" && u.Scheme != "mem" {
		return nil, &URLError{text: u.Scheme + ":// names no bucket", hint: u.Scheme + "://BUCKET"}
	}
	return u, nil
}

func openBackend(ctx context.Context, where string) (backend, error) {
	if where == "" {
		where = DefaultDir
	}
	if !strings.Contains(where, "://") {
		return openDirectory(where)
	}
	u, err := parseURL(where)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		if u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return nil, &URLError{text: "file:// names no directory", hint: "file:///DIRECTORY, or the directory alone"}
		}
		return openDirectory(u.Path)
	}
	b := &bucket{url: u.Scheme + "://" + u.Host + "/"}
	if p := strings.Trim(path.Clean("/"+u.Path), "/"); p != "" {
		b.prefix = p + "/"
	}
	if u.Scheme == "gs" {
		g, err := openGoogle(ctx, u.Host, b.prefix, u.Query().Get("anonymous") == "true")
		if err == nil {
			err = g.accessible(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.where(""), err)
		}
		return g, nil
	}
	if b.Bucket, err = openBucket(ctx, u); err != nil {
		return nil, unopened(b, err)
	}
	if u.Scheme == "mem" {
		return b, nil
	}
	// Before anything is measured: minutes of work would be lost.
	there, err := b.IsAccessible(ctx)
	if err == nil && !there {
		err = fmt.Errorf("there is no such bucket, or it may not be listed: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(unopened(b, err), b.Close())
	}
	return b, nil
}

func unopened(b *bucket, err error) error { return fmt.Errorf("%s: %w", b.where(""), cloudError(err)) }

func openBucket(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q := u.Query()
	plain := &url.URL{Scheme: u.Scheme, Host: u.Host}
	switch u.Scheme {
	case "s3":
		// What is stored has a checksum of its own, and of objects that have none
		// of S3's the SDK would write to standard error.
		usual := map[string]string{"response_checksum_validation": "when_required"}
		if q.Get("endpoint") != "" {
			// Servers that are not Amazon's have no host for each bucket, and some refuse
			// checksums that they did not ask for.
			usual["use_path_style"], usual["request_checksum_calculation"] = "true", "when_required"
		}
		for name, value := range usual {
			if !q.Has(name) {
				q.Set(name, value)
			}
		}
	}
	plain.RawQuery = q.Encode()
	return blob.OpenBucket(ctx, plain.String())
}
