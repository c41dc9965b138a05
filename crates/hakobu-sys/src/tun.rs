//! TUN devices: network interfaces whose packets a program reads and writes.
//!
//! A device lives as long as its [`Tun`]: it is never made persistent, so the
//! kernel removes it when the descriptor is closed, also when the process dies.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, ioctl, opcode};

/// Room for an interface name in `struct ifreq`, with its closing zero byte.
const NAME_SIZE: usize = 16;
/// `_IOW('T', 202, int)`: attach this descriptor to an interface.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
/// Packets of layer 3, without Ethernet headers.
const IFF_TUN: i16 = 0x0001;
/// No four bytes of packet information ahead of each packet.
const IFF_NO_PI: i16 = 0x1000;

/// `struct ifreq`, as far as `TUNSETIFF` looks at it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_SIZE],
    flags: i16,
    rest: [u8; 22],
}

/// A TUN device, opened without blocking.
#[derive(Debug)]
pub struct Tun {
    descriptor: OwnedFd,
}

impl Tun {
    /// Creates the device `name` (1 to 15 bytes) in the network namespace of
    /// the calling thread. The device is down and has no address.
    ///
    /// # Errors
    /// `InvalidInput` when the name does not fit; else what opening
    /// `/dev/net/tun` or the kernel answers (it takes `CAP_NET_ADMIN`).
    pub fn create(name: &str) -> io::Result<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() >= NAME_SIZE || bytes.contains(&0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("not a name for an interface: {name:?}"),
            ));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        let mut request =
            InterfaceRequest { name: [0; NAME_SIZE], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
        request.name[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: TUNSETIFF reads and writes one `struct ifreq` of 40 bytes,
        // which `InterfaceRequest` is in size and layout (asserted below); the
        // setter owns it for the length of the call.
        unsafe { ioctl(&descriptor, Setter::<TUNSETIFF, _>::new(request))? };
        Ok(Self { descriptor })
    }

    /// Takes one packet the kernel wants to send; what exceeds `buffer` is cut
    /// off, so it should hold the MTU.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.descriptor, buffer)?)
    }

    /// Hands one packet to the kernel, which takes it as arrived.
    ///
    /// # Errors
    /// Among others when the device is down or the packet is not IP.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.descriptor, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

#[cfg(test)]
mod tests {
    use super::Tun;

    #[test]
    fn names_that_do_not_fit_are_refused() {
        for name in ["", "sixteen-bytes-xx", "nul\0"] {
            let error = Tun::create(name).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
