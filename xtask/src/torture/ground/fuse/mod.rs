//! A file system that lies: a tree shown as another file system might show it.
//!
//! It runs in a process of its own, `xtask ground lying-fs`, which ends when its standard input does: so it never outlives the
//! harness. Honest ([`Lies::default`]) it passes everything through: all kinds of files, owners, modes, times, extended attributes,
//! ACLs, hard links, holes. What each lie does is said at its field. `lies.rs` has the lies, `nodes.rs` the files that the kernel knows
//! of, `content.rs` what is open, `tree.rs` what is done to the tree, `server.rs` the requests.

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

/// How many requests are served at a time.
const THREADS: usize = 4;

/// Mounts and serves until it is unmounted or standard input ends.
///
/// # Errors
/// Where it cannot be mounted.
pub fn serve(root: &Path, mount_point: &Path, lies: Lies) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::empty());
    // Each file that the kernel remembers is a descriptor.
    let most = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    let server = tree::Server::new(root, lies).with_context(|| format!("open {}", root.display()))?;
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
