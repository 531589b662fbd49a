// Image makes the OCI image of the Linux binaries that goreleaser left in a folder, for
// each architecture that is there, without a daemon and from no other image:
//
//	image -dist dist -created 2026-01-02T15:04:05Z -chart deploy/helm/weir LICENSE bin/release/THIRD-PARTY
//
// The image holds the files that are named, the licences, in /usr/share/doc/weir.
// It writes the folder dist/image, an OCI image layout, and the same as an archive, which
// it adds to the checksums. So it does the Helm chart, which names the image by its
// digest. The same binaries make the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	dist := flag.String("dist", "dist", "folder of goreleaser's artifacts")
	created := flag.String("created", "", "time of the commit, RFC 3339")
	chart := flag.String("chart", "", "folder of the Helm chart")
	flag.Parse()
	if err := run(*dist, *created, *chart, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(dist, created, chart string, licences []string) error {
	if chart == "" {
		return errors.New("no chart is named: add -chart deploy/helm/weir")
	}
	if len(licences) == 0 {
		return errors.New("no files of licences are named: add LICENSE and bin/release/THIRD-PARTY")
	}
	at, err := time.Parse(time.RFC3339, created)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	d, err := readDist(dist)
	if err != nil {
		return err
	}
	index, err := buildIndex(d, licences, at)
	if err != nil {
		return err
	}
	folder, err := writeLayout(d, index)
	if err != nil {
		return err
	}
	archive, err := d.archive(folder, at)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	packed, err := d.chart(chart, digest.String(), at)
	if err != nil {
		return err
	}
	fmt.Println(archive, packed)
	return errors.Join(d.addChecksum(archive), d.addChecksum(packed))
}
