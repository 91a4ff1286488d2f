// SPDX-License-Identifier: GPL-3.0-or-later

// Gonfs serves a directory by NFSv3 and MOUNT on one port of this machine: the library
// github.com/willscott/go-nfs as it is, with no care taken of what it does not know.  An old server
// that is odd, for tests/sources.
package main

import (
	"log"
	"net"
	"os"

	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

const handles = 1 << 20 // more than there are objects: what it has forgotten is stale

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gonfs DIRECTORY PORT")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	handler := helpers.NewNullAuthHandler(osfs.New(os.Args[1]))
	log.Fatal(nfs.Serve(listener, helpers.NewCachingHandler(handler, handles)))
}
