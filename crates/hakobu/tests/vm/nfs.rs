//! A tree on NFS: the kernel's own server and client in one machine. Files that were deleted while open, handles that
//! the server no longer knows, and root that is nobody there.

use std::time::Duration;

use hakobu_testkit::sshd::no_root;

use crate::*;

const LIMIT: Duration = Duration::from_secs(400);

/// Starts the server without its usual helpers: the answers that they would give to the kernel are written
/// beforehand. `export` takes the flags of the kernel's `uapi/linux/nfsd/export.h`: any port (2), root as nobody (4),
/// no check of subtrees (0x400), a number for the file system (0x2000).
const SERVER: &str = "
ip link set lo up
mkdir -p /srv /mnt /var/lib/nfs/v4recovery
mount -t tmpfs -o mode=755 srv /srv
mount -t nfsd nfsd /proc/fs/nfsd
told() { echo \"$2\" >/proc/net/rpc/$1/channel; }
export_as() {
  told auth.unix.ip 'nfsd 127.0.0.1 2147483647 here'
  told nfsd.export \"here /srv 2147483647 $1 65534 65534 0\"
  told nfsd.fh 'here 1 \\x00000000 2147483647 /srv'
}
forget() { told nfsd.fh 'here 1 \\x00000000 2147483647'; }
mounted() { mount -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,proto=tcp,actimeo=600 127.0.0.1:/ /mnt; }
echo -2 -3 +4 +4.1 +4.2 >/proc/fs/nfsd/versions
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 10 >/proc/fs/nfsd/nfsv4leasetime
export_as 9218
step threads sh -c 'echo 4 >/proc/fs/nfsd/threads'
echo Y >/proc/fs/nfsd/v4_end_grace
step mount mounted
mkdir /tmp/tree /tmp/tree/directory
hakobu make-data tree /tmp/tree/many --files 200 --dirs 10 --size 3KiB --nasty --links >/dev/null
echo content >/tmp/tree/file
ln /tmp/tree/file /tmp/tree/linked
ln -s nowhere /tmp/tree/link
mkfifo /tmp/tree/fifo
echo secret >/tmp/tree/directory/secret
chmod 600 /tmp/tree/directory/secret
chown 1234:4321 /tmp/tree/directory
dd if=/dev/urandom of=/tmp/tree/large bs=1M count=3 2>/dev/null
";

/// Copies a tree to the server and back, while somebody has a deleted file open.
const THERE_AND_BACK: &str = "
step copy hakobu copy /tmp/tree/ /mnt/copy
step verify hakobu verify /tmp/tree/ /mnt/copy
step again hakobu sync --delete /tmp/tree/ /mnt/copy
echo held >/mnt/copy/held
exec 7</mnt/copy/held
rm /mnt/copy/held
step deleted ls -a /mnt/copy
step beside hakobu sync --delete /tmp/tree/ /mnt/copy
step back hakobu copy /mnt/copy/ /tmp/back
step content cat /proc/self/fd/7
exec 7<&-
step no-deleted ls -a /tmp/back
step verify-back hakobu verify /tmp/tree/ /tmp/back
rm -r /tmp/back
";

/// A script that uses handles that the server no longer knows.
const STALE: &str = "
ls -lR /mnt/copy >/dev/null
rm -r /srv/copy/directory
mkdir /srv/copy/directory
step replaced hakobu copy /mnt/copy/ /tmp/replaced
rm -r /tmp/replaced
dd if=/dev/zero bs=1M count=64 2>/dev/null | tr '\\0' x >/srv/big
cut_off() {
  (hakobu copy /mnt/big - 2>/tmp/words; echo $? >/tmp/code) | (
    dd bs=64k count=1 of=/dev/null 2>/dev/null
    forget
    cat >/dev/null
  )
  cat /tmp/words
  return $(cat /tmp/code)
}
step stale cut_off
step all-stale hakobu copy /mnt/copy/ /tmp/stale
export_as 9218
step known-again hakobu copy /mnt/big /tmp/big
";

/// The server treats root as nobody.
const SQUASHED: &str = "
umount /mnt
mkdir /srv/open /srv/closed
chmod 777 /srv/open
mkdir /srv/source
echo secret >/srv/source/secret
chmod 600 /srv/source/secret
echo open >/srv/source/open
export_as 9222
echo 1 >/proc/net/rpc/auth.unix.ip/flush
export_as 9222
step mount-squashed mounted
step closed hakobu copy /tmp/tree/ /mnt/closed
step open hakobu copy /tmp/tree/ /mnt/open/copy
step required hakobu copy --require owner /tmp/tree/ /mnt/open/required
step secret hakobu copy /mnt/source/ /tmp/source
step got cat /tmp/source/open
";

#[test]
#[ignore = "long"]
fn long_trees_on_nfs_and_what_only_nfs_does() {
    // Root installs the packages that this test needs.
    if no_root() {
        return;
    }
    let machine = machine(&["nfsd", "nfsv4", "md5"]);
    let script = [SERVER, THERE_AND_BACK, STALE, SQUASHED].concat();
    let output = machine.start(&[], &script, LIMIT).unwrap().wait().unwrap();

    let said = |name: &str, code: i32, words: &[&str]| {
        let step = step(&output, name);
        assert_eq!(step.code, code, "{name}: {}", step.output);
        for word in words {
            assert!(step.output.contains(word), "{name}, {word}: {}", step.output);
        }
        step.output
    };
    for name in ["threads", "mount", "mount-squashed"] {
        said(name, 0, &[]);
    }
    said("copy", 0, &["done: 239 created"]);
    said("verify", 0, &["done: 239 equal"]);
    said("again", 0, &["0 created, 0 updated, 239 unchanged"]);
    // The renamed file is not copied and not deleted, and exists until it is closed.
    said("deleted", 0, &["\n.nfs0"]);
    said("beside", 0, &["0 created, 0 updated, 239 unchanged"]);
    said("content", 0, &["held"]);
    assert!(!said("no-deleted", 0, &["directory"]).contains(".nfs"));
    said("verify-back", 0, &["done: 239 equal"]);

    said("replaced", 0, &["done: 238 created"]);
    let stale = "(stale file handle)";
    said("stale", 1, &["failed: big: reading: the file server no longer knows it", stale]);
    said("all-stale", 1, &["looking at the source /mnt/copy/: the file server no longer knows it", stale]);
    said("known-again", 0, &["done: 1 created"]);

    let nobody = "note: an NFS server treats root as nobody unless its export says no_root_squash";
    said("closed", 1, &["permission denied", nobody]);
    assert!(!said("open", 0, &["not preserved: owner or group of 238 entries"]).contains(nobody));
    said("required", 6, &["--require owner is not met"]);
    said("secret", 3, &["failed: secret: opening: permission denied", nobody]);
    said("got", 0, &["open"]);
}
