// Package docs is the documentation, so that gate help shows that of its own version.
// It does nothing else.
package docs

import "embed"

// Files are the pages, TOPIC.md each.
//
//go:embed *.md
var Files embed.FS
