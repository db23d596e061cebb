package bpf

import "context"

// LockHost waits until no other run measures on this host.
func LockHost(ctx context.Context, waiting func(owner string)) (release func(), err error) {
	return func() {}, nil
}
