package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// A googleBucket is a bucket of Google Cloud Storage by its JSON API
// (https://cloud.google.com/storage/docs/json_api/v1), whose condition
// ifGenerationMatch=0 holds that there was no such object.
//
// Note: gocloud's gcsblob brings gRPC and Envoy's control plane, by which gate was 20 MB
// larger, and prints to standard output where it finds no credentials.
type googleBucket struct {
	client *http.Client
	api    string // of the server, without a slash at its end
	name   string
	prefix string
}

// googleScope is what a store does.
const googleScope = "https://www.googleapis.com/auth/devstorage.read_write"

// openGoogle takes Google's default credentials, as gcloud and all its libraries do, or
// none for anonymous access and an emulator.
func openGoogle(ctx context.Context, name, prefix string, anonymous bool) (*googleBucket, error) {
	g := &googleBucket{client: &http.Client{}, api: "https://storage.googleapis.com", name: name, prefix: prefix}
	if emulator := os.Getenv("STORAGE_EMULATOR_HOST"); emulator != "" {
		if !strings.Contains(emulator, "://") {
			emulator = "http://" + emulator
		}
		g.api, anonymous = strings.TrimRight(emulator, "/"), true
	}
	if !anonymous {
		creds, err := google.FindDefaultCredentials(ctx, googleScope)
		if err != nil {
			return nil, &CloudError{text: oneLine(err), code: gcerrors.PermissionDenied, err: err}
		}
		g.client = oauth2.NewClient(context.WithoutCancel(ctx), creds.TokenSource)
	}
	return g, nil
}

func (g *googleBucket) close() error  { g.client.CloseIdleConnections(); return nil }
func (g *googleBucket) parallel() int { return 64 }

func (g *googleBucket) where(key string) string {
	return strings.TrimSuffix("gs://"+g.name+"/"+g.prefix+key, "/")
}

func (g *googleBucket) sweep(context.Context, time.Time) error { return nil }

// accessible asks for the list of objects, of which it needs one at most.
func (g *googleBucket) accessible(ctx context.Context) error {
	_, _, err := g.page(ctx, url.Values{"maxResults": {"1"}})
	return err
}

func (g *googleBucket) list(ctx context.Context, prefix string, found func(object)) error {
	q := url.Values{"prefix": {g.prefix + prefix}, "maxResults": {"1000"}}
	for {
		objects, next, err := g.page(ctx, q)
		if err != nil {
			return err
		}
		for _, o := range objects {
			found(o)
		}
		if next == "" {
			return nil
		}
		q.Set("pageToken", next)
	}
}

func (g *googleBucket) page(ctx context.Context, q url.Values) (objects []object, next string, err error) {
	const most = 16 << 20
	q.Set("fields", "items(name,size,md5Hash,generation),nextPageToken")
	data, err := g.do(ctx, http.MethodGet, "/storage/v1/b/"+url.PathEscape(g.name)+"/o", q, nil, most)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Items []struct {
			Name, Size, MD5Hash, Generation string
		}
		NextPageToken string
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, "", &CloudError{text: "a list that cannot be read: " + oneLine(err), code: gcerrors.Internal, err: err}
	}
	for _, i := range list.Items {
		o := object{key: strings.TrimPrefix(i.Name, g.prefix), tag: i.Generation}
		if sum, err := base64.StdEncoding.DecodeString(i.MD5Hash); err == nil && len(sum) > 0 {
			o.tag = hex.EncodeToString(sum)
		}
		if o.size, err = strconv.ParseInt(i.Size, 10, 64); err != nil {
			o.err = errors.New("no size")
		}
		objects = append(objects, o)
	}
	return objects, list.NextPageToken, nil
}

func (g *googleBucket) object(key string) string {
	return "/storage/v1/b/" + url.PathEscape(g.name) + "/o/" + url.PathEscape(g.prefix+key)
}

func (g *googleBucket) read(ctx context.Context, key string, most int64) ([]byte, error) {
	data, err := g.do(ctx, http.MethodGet, g.object(key), url.Values{"alt": {"media"}}, nil, most)
	var refused *CloudError
	if errors.As(err, &refused) && refused.code == gcerrors.PermissionDenied {
		return nil, lostError{err} // an object of others, in a store that was listed
	}
	return data, err
}

func (g *googleBucket) create(ctx context.Context, key string, data []byte) error {
	if err := fits(g.prefix + key); err != nil {
		return err
	}
	// As Google's own libraries send small objects: name and content in one request. With
	// uploadType=media emulators heed no condition.
	name, err := json.Marshal(map[string]string{"name": g.prefix + key})
	if err != nil {
		return err
	}
	var body upload
	parts := multipart.NewWriter(&body.data)
	for _, p := range []struct {
		kind string
		data []byte
	}{{"application/json; charset=UTF-8", name}, {contentType(key), data}} {
		part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind}})
		if err == nil {
			_, err = part.Write(p.data)
		}
		if err != nil {
			return err
		}
	}
	if err := parts.Close(); err != nil {
		return err
	}
	body.kind = "multipart/related; boundary=" + parts.Boundary()
	q := url.Values{"uploadType": {"multipart"}, "ifGenerationMatch": {"0"}}
	_, err = g.do(ctx, http.MethodPost, "/upload/storage/v1/b/"+url.PathEscape(g.name)+"/o", q, &body, 1<<20)
	return err
}

// An upload is the body of a request.
type upload struct {
	kind string // its content type
	data bytes.Buffer
}

func (g *googleBucket) remove(ctx context.Context, key string) error {
	_, err := g.do(ctx, http.MethodDelete, g.object(key), nil, nil, 1<<20)
	return err
}

// do sends a request, again where the server asks for it. A repeated request to make an
// object that finds it there made it itself: no two runs share a name.
func (g *googleBucket) do(ctx context.Context, method, at string, q url.Values, body *upload, most int64) ([]byte, error) {
	const attempts = 5
	wait := 200 * time.Millisecond
	for i := 1; ; i++ {
		data, again, err := g.once(ctx, method, at, q, body, most)
		if body != nil && i > 1 && errIsExist(err) {
			return nil, nil
		}
		if err == nil || !again || i == attempts {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			wait *= 2
		}
	}
}

func errIsExist(err error) bool {
	var e *CloudError
	return errors.As(err, &e) && e.code == gcerrors.FailedPrecondition
}

func (g *googleBucket) once(ctx context.Context, method, at string, q url.Values, body *upload, most int64) (data []byte, again bool, err error) {
	address := g.api + at
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body.data.Bytes())
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, false, err
	}
	if body != nil {
		r.Header.Set("Content-Type", body.kind)
	}
	// Nothing is inflated on its way.
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := g.client.Do(r)
	if err != nil {
		return nil, ctx.Err() == nil, &CloudError{text: oneLine(err), code: gcerrors.Unknown, err: err}
	}
	defer answer.Body.Close()
	data, err = io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch code := answer.StatusCode; {
	case err != nil:
		return nil, ctx.Err() == nil, &CloudError{text: oneLine(err), code: gcerrors.Unknown, err: err}
	case code/100 == 2 && int64(len(data)) > most:
		return nil, false, lostError{tooLarge(most)}
	case code/100 == 2:
		return data, false, nil
	default:
		err := fmt.Errorf("%s: %.200s", answer.Status, data)
		e := &CloudError{text: oneLine(err), code: statusCode(code), err: err}
		return nil, code == http.StatusTooManyRequests || code >= 500, e
	}
}

func statusCode(code int) gcerrors.ErrorCode {
	switch code {
	case http.StatusNotFound:
		return gcerrors.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return gcerrors.PermissionDenied
	case http.StatusPreconditionFailed:
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}
