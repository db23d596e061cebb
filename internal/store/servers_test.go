package store

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
)

// Servers that others wrote after the clouds' own, where they are installed:
// scripts/test-servers.sh fetches them.

// serve starts a server that listens at an address, and waits until it does.
func serve(t *testing.T, name string, args func(host, port string) []string) (address string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s in PATH; make test-servers fetches it", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(program, args(host, port)...)
	cmd.Dir = t.TempDir()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return address
		}
		select {
		case why := <-ended:
			ended <- why
			t.Fatalf("%s: %v: %s", name, why, &said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fakeGCS starts a server of Google Cloud Storage (github.com/fsouza/fake-gcs-server) with a
// bucket, whose URL it returns.
func fakeGCS(t *testing.T) string {
	t.Helper()
	address := serve(t, "fake-gcs-server", func(host, port string) []string {
		return []string{"-scheme", "http", "-host", host, "-port", port, "-backend", "memory", "-log-level", "error"}
	})
	answer, err := http.Post("http://"+address+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"runs"}`))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", address)
	return "gs://runs"
}

// azurite starts Microsoft's server of Azure Blob Storage with a container, and returns
// the URL of a prefix.
func azurite(t *testing.T, prefix string) string {
	t.Helper()
	// The account that every Azurite has.
	const account, key = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	address := serve(t, "azurite-blob", func(host, port string) []string {
		return []string{"--blobHost", host, "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"}
	})
	shared, err := azblob.NewSharedKeyCredential(account, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azblob.NewClientWithSharedKeyCredential(fmt.Sprintf("http://%s/%s", address, account), shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateContainer(t.Context(), "runs", nil); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", account)
	t.Setenv("AZURE_STORAGE_KEY", key)
	return "azblob://runs" + prefix + "?protocol=http&localemu=true&domain=" + address
}
