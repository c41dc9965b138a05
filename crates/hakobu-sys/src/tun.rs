//! Creates TUN devices: network interfaces whose packets a program reads and writes.
//!
//! A device exists as long as its [`Tun`]. It is never persistent, so the kernel removes it when the descriptor is
//! closed, even if the process is killed.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, ioctl, opcode};

/// The size of an interface name in `struct ifreq`, including its NUL.
const NAME_SIZE: usize = 16;
/// `_IOW('T', 202, int)`: attaches this descriptor to an interface.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
/// Packets of layer 3, without Ethernet headers.
const IFF_TUN: i16 = 0x0001;
/// No four bytes of packet information before each packet.
const IFF_NO_PI: i16 = 0x1000;

/// The part of `struct ifreq` that `TUNSETIFF` uses.
#[repr(C)]
struct TunRequest {
    name: [u8; NAME_SIZE],
    flags: i16,
    rest: [u8; 22],
}

/// A TUN device, opened in non-blocking mode.
#[derive(Debug)]
pub struct Tun {
    descriptor: OwnedFd,
}

impl Tun {
    /// Creates the device `name` (1 to 15 bytes) in the network namespace of the calling thread. The device is down
    /// and has no address.
    ///
    /// # Errors
    /// `InvalidInput` if the name is too short or too long; otherwise the error of opening `/dev/net/tun` or of the
    /// kernel (it requires `CAP_NET_ADMIN`).
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
        let mut request = TunRequest { name: [0; NAME_SIZE], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
        request.name[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: TUNSETIFF reads and writes one `struct ifreq` of 40 bytes, which has the size and layout of
        // `InterfaceRequest` (asserted below). The setter owns it during the call.
        unsafe { ioctl(&descriptor, Setter::<TUNSETIFF, _>::new(request))? };
        Ok(Self { descriptor })
    }

    /// Receives one packet that the kernel sends. Bytes beyond `buffer` are lost, so it should have at least the size
    /// of the MTU.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.descriptor, buffer)?)
    }

    /// Passes one packet to the kernel as if it had arrived.
    ///
    /// # Errors
    /// For example if the device is down or the packet is not IP.
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

const _: () = assert!(size_of::<TunRequest>() == 40);

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
