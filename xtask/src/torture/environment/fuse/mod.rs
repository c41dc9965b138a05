//! A file system that lies: it shows a tree as another file system might show it.
//!
//! It runs in a process of its own, `xtask environment lying-fs`, which ends at the end of its standard input, so it
//! never outlives the harness. Without lies ([`Lies::default`]) it passes everything through: all kinds of files,
//! owners, modes, times, extended attributes, ACLs, hard links, holes. The effect of each lie is described at its
//! field. `lies.rs` has the lies, `nodes.rs` the files that the kernel knows, `content.rs` open files, `tree.rs`
//! operations on the tree, and `server.rs` the requests.

mod content;
mod lies;
mod nodes;
mod server;
mod tree;

use std::io::Read;
use std::path::Path;
use std::{process, thread};

use anyhow::Context;
use fuser::{Config, MountOption, SessionACL};
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit};

pub use lies::Lies;

/// The number of requests that are served at a time.
const THREADS: usize = 4;

/// Mounts and serves the file system until it is unmounted or standard input ends.
///
/// # Errors
/// Returns an error if it cannot be mounted.
pub fn serve(root: &Path, mount_point: &Path, lies: Lies) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::empty());
    // Each file that the kernel remembers needs a descriptor.
    let most = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    let server = tree::LyingServer::new(root, lies).with_context(|| format!("open {}", root.display()))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("lying".to_owned()),
        MountOption::Subtype("lying".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::Dev,
        MountOption::Suid,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    let session = fuser::Session::new(server, mount_point, &config)
        .with_context(|| format!("mount {}", mount_point.display()))?;
    let mounted = mount_point.to_owned();
    thread::spawn(move || {
        // The harness holds the other end and never writes to it.
        let _ = std::io::stdin().read(&mut [0]);
        let _ = rustix::mount::unmount(&mounted, UnmountFlags::DETACH);
        process::exit(0);
    });
    session.run().context("serve the file system")
}
