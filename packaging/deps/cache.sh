# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
# Read by what keeps things in the cache ($POSTCOPY_CACHE, /var/cache/postcopy): prepare-headers,
# tests/tools/debian-root, debian-build and gonfs/build.  What nobody has asked for in
# POSTCOPY_CACHE_DAYS (14) is removed when something new is made: each change of a recipe, and
# each update of a server, leaves what was made before.  Not at once: another branch or clone may want that still.
#
# Who asks for an entry leaves its time in .used/ENTRY, and looks whether the entry is there, with
# CACHE/.lock shared; entries are taken away with that lock alone.  So nobody is given what goes,
# and what is used for less than those days stays while it is used.

# cache_locked -s | -x CACHE COMMAND...
cache_locked() {
	local how=$1 cache=$2

	shift 2
	(
		exec 8>> "$cache/.lock"
		flock "$how" 8
		"$@" 8>&-
	)
}

cache_touch() {
	touch "${1%/*}/.used/${1##*/}"
	[ -d "$1" ]
}

# cache_use ENTRY: is there this directory?  It is used from now on.
cache_use() {
	local cache=${1%/*}

	if mkdir -p "$cache/.used" 2> /dev/null && [ -w "$cache/.used" ] && [ -w "$cache" ]; then
		cache_locked -s "$cache" cache_touch "$1"
	else
		[ -d "$1" ]	# somebody else's
	fi
}

cache_is_old() {
	[ -n "$(find "$1" -maxdepth 0 -mmin +$((${POSTCOPY_CACHE_DAYS:-14} * 24 * 60)))" ]
}

# An empty build-* is where a root has one of another machine's mounted: it has no file "tree".
cache_collect() {
	local cache=$1 entry stamp

	for entry in "$cache"/{ganesha,samba,debian,build,gonfs}-*/; do
		entry=${entry%/}
		stamp=$cache/.used/${entry##*/}
		[ -d "$entry" ] && [ ! -L "$entry" ] || continue
		[[ $entry != */build-* || -e $entry/tree ]] || continue
		[[ $entry != *.part ]] || stamp=$entry	# being made, or left by who was killed
		if [ ! -e "$stamp" ]; then
			touch "$stamp"	# of who did not leave any: from now on
		elif cache_is_old "$stamp"; then
			mv -T "$entry" "$cache/.gone.${entry##*/}.$$" && rm -f "$stamp" || true
		fi
	done
	for stamp in "$cache"/.used/* "$cache"/build-*.lock; do
		entry=$cache/${stamp##*/}
		[ ! -e "$stamp" ] || [ -d "${entry%.lock}" ] || ! cache_is_old "$stamp" || rm -f "$stamp"
	done
}

# cache_prune CACHE: takes a moment, and removes without the lock
cache_prune() {
	mkdir -p "$1/.used"
	cache_locked -x "$1" cache_collect "$1"
	rm -rf --one-file-system "$1"/.gone.*
}
