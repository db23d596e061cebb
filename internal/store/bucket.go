package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// maxKey is the longest key in bytes that S3, Google Cloud Storage and Azure Blob all take.
const maxKey = 1024

// A bucket keeps objects with a cloud, of which one request makes an object or does
// not, and a condition of that request holds that there was none.
type bucket struct {
	*blob.Bucket
	url    string // without parameters, ending in a slash
	prefix string // of every key
}

func (b *bucket) close() error            { return b.Close() }
func (b *bucket) parallel() int           { return 64 } // requests mostly wait
func (b *bucket) where(key string) string { return strings.TrimSuffix(b.url+b.prefix+key, "/") }

func (b *bucket) list(ctx context.Context, prefix string, found func(object)) error {
	list := b.List(&blob.ListOptions{Prefix: b.prefix + prefix})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cloudError(err)
		}
		tag := hex.EncodeToString(o.MD5)
		if tag == "" {
			tag = strconv.FormatInt(o.ModTime.UnixNano(), 36)
		}
		found(object{key: strings.TrimPrefix(o.Key, b.prefix), size: o.Size, tag: tag})
	}
}

func (b *bucket) read(ctx context.Context, key string, most int64) ([]byte, error) {
	r, err := b.NewReader(ctx, b.prefix+key, nil)
	if gcerrors.Code(err) == gcerrors.PermissionDenied {
		return nil, lostError{cloudError(err)} // an object of others, in a store that was listed
	}
	if err != nil {
		return nil, cloudError(err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, cloudError(err)
	}
	if int64(len(data)) > most {
		return nil, lostError{tooLarge(most)}
	}
	return data, nil
}

func (b *bucket) create(ctx context.Context, key string, data []byte) error {
	key = b.prefix + key
	if err := fits(key); err != nil {
		return err
	}
	// Not WriteAll: what Azure refuses panics there (gocloud.dev v0.47.0, azureblob's
	// writer closes a pipe that it no longer has).
	return cloudError(b.Upload(ctx, key, bytes.NewReader(data), &blob.WriterOptions{ContentType: contentType(key), IfNotExist: true, MaxConcurrency: 1}))
}

// fits tells that a key is one that every cloud takes.
func fits(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("a name of %d bytes, at most %d in a bucket: the names of branch and testbed are too long", len(key), maxKey)
	}
	return nil
}

// contentType is of gzip as content, not as its encoding: some clouds would inflate it.
func contentType(key string) string {
	if strings.HasSuffix(key, suffix) {
		return "application/gzip"
	}
	return "text/plain; charset=utf-8"
}

func (b *bucket) remove(ctx context.Context, key string) error {
	return cloudError(b.Delete(ctx, b.prefix+key))
}

// sweep has nothing to do: a request that was not finished left nothing.
func (b *bucket) sweep(context.Context, time.Time) error { return nil }

// A CloudError is what a cloud answered, in one line and without secrets.
type CloudError struct {
	text string
	code gcerrors.ErrorCode
	err  error
}

func (e *CloudError) Error() string { return e.text }
func (e *CloudError) Unwrap() error { return e.err }

// Is makes of a cloud's answers what files would have said.
func (e *CloudError) Is(target error) bool {
	switch e.code {
	case gcerrors.NotFound:
		return target == fs.ErrNotExist
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return target == fs.ErrExist
	case gcerrors.PermissionDenied:
		return target == fs.ErrPermission
	}
	return false
}

// Hint says where credentials come from.
func (e *CloudError) Hint() string {
	switch e.code {
	case gcerrors.Canceled, gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return ""
	}
	return "credentials are read from the environment, as aws, gcloud and az read them: gate baseline --help"
}

func cloudError(err error) error {
	if err == nil {
		return nil
	}
	return &CloudError{text: oneLine(err), code: gcerrors.Code(err), err: err}
}

// oneLine is an error in one line, without secrets.
func oneLine(err error) string {
	const longest = 400
	text := redact(strings.Join(strings.Fields(err.Error()), " "), os.Getenv)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// secrets are the variables whose values nobody may read in an error.
var secrets = []string{
	"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET",
	"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING",
}

// redact takes out of a text what the environment has as secrets.
func redact(text string, getenv func(string) string) string {
	for _, name := range secrets {
		if v := getenv(name); len(v) >= 4 {
			text = strings.ReplaceAll(text, v, "…")
		}
	}
	return text
}
