//! An emulated link: two network namespaces, near and far, joined by two TUN devices. Threads of this process carry
//! the packets between them with a chosen delay, jitter, rate and loss. On request, each TCP connection has its own
//! rate limit, or reduces the rate of all. The kernel needs no `netem`.
//!
//! ```no_run
//! use std::time::Duration;
//! use hakobu_testkit::link::{Link, LinkSettings};
//!
//! let link = Link::up(LinkSettings {
//!     rate_bits_per_second: Some(1_000_000_000),
//!     mtu: 9000,
//!     ..LinkSettings::with_rtt(Duration::from_millis(100))
//! })?;
//! let status = link.near().command("ping")
//!     .args(["-c", "3", &link.far().address().to_string()])
//!     .status();
//! # Ok::<(), hakobu_testkit::link::LinkError>(())
//! ```
//!
//! Requires root and `ip` (iproute2). No segmentation is offloaded, so packets are no larger than the MTU, and loss,
//! queue and rate apply as on a wire.

mod connections;
mod crowd;
mod error;
mod forwarder;
mod namespace;
mod ring;
mod settings;
mod shaper;
#[cfg(test)]
mod tests;
mod traffic;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use error::LinkError;
use forwarder::Forwarder;
pub use namespace::Namespace;
pub use settings::{Crowding, LinkSettings};
pub use traffic::{Counters, LinkTraffic};

/// A link that is up. Dropping it removes everything, and ends the processes that still run in its namespaces.
#[derive(Debug)]
pub struct Link {
    // In the order of removal: the devices are removed with the forwarder.
    forwarder: Forwarder,
    near: Namespace,
    far: Namespace,
}

impl Link {
    /// Creates both ends and starts to carry packets. Removes what killed processes left behind.
    ///
    /// # Errors
    /// [`LinkError`]; nothing is left behind then.
    pub fn up(settings: LinkSettings) -> Result<Self, LinkError> {
        settings.check()?;
        if !rustix::process::geteuid().is_root() {
            return Err(LinkError::NotRoot);
        }
        namespace::sweep();
        let number = next_number();
        let (near, far) = addresses(number);
        let near = Namespace::create(namespace::name_of(number, "near"), near, far)?;
        let far = Namespace::create(namespace::name_of(number, "far"), far, near.address())?;
        let near_device = near.add_device(settings.mtu)?;
        let far_device = far.add_device(settings.mtu)?;
        let forwarder = Forwarder::start(near_device, far_device, settings)?;
        Ok(Self { forwarder, near, far })
    }

    /// Returns one end.
    #[must_use]
    pub fn near(&self) -> &Namespace {
        &self.near
    }

    /// Returns the other end.
    #[must_use]
    pub fn far(&self) -> &Namespace {
        &self.far
    }

    /// Returns the packet counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.forwarder.counters()
    }

    /// Drops every packet from now on, including those in transit. Neither end is notified, as with a pulled cable.
    pub fn cut(&self) {
        self.forwarder.set_cut(true);
    }

    /// Ends [`cut`](Self::cut).
    pub fn mend(&self) {
        self.forwarder.set_cut(false);
    }

    /// Returns the current settings.
    #[must_use]
    pub fn settings(&self) -> LinkSettings {
        self.forwarder.settings()
    }

    /// Changes delay, jitter, rates, crowding, loss and queue for future packets. Packets in transit arrive as
    /// planned, and the order is kept. The seed only takes effect when the link is created.
    ///
    /// # Errors
    /// [`LinkError::Settings`], also for a different MTU, which cannot be changed.
    pub fn change(&self, settings: LinkSettings) -> Result<(), LinkError> {
        settings.check()?;
        if settings.mtu != self.settings().mtu {
            return Err(LinkError::Settings("the MTU of a link is fixed".into()));
        }
        self.forwarder.change(settings);
        Ok(())
    }
}

/// Returns a number that is unique among the links of this process.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Returns one of 16384 address pairs in 10.213.0.0/16. The process ID makes pairs of different processes differ.
/// Equal pairs do no harm, since namespaces isolate them.
fn addresses(number: u32) -> (Ipv4Addr, Ipv4Addr) {
    let pair = std::process::id().wrapping_mul(16).wrapping_add(number) % 16_384;
    let base = u32::from(Ipv4Addr::new(10, 213, 0, 0)) + 4 * pair;
    (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2))
}
