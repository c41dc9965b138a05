//! Reads the offloads and ring sizes of a network device, as `ethtool` shows them.
//!
//! Devices are those in the network namespace of the calling thread. Nothing is changed.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;

use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::net::{AddressFamily, SocketType, socket};

/// The size of an interface name in `struct ifreq`, including its NUL.
const NAME_SIZE: usize = 16;
/// The opcode from `linux/sockios.h`. It predates opcodes that encode their argument.
const SIOCETHTOOL: Opcode = 0x8946;
/// `ETHTOOL_GRINGPARAM` of `linux/ethtool.h`.
const GET_RINGS: u32 = 0x10;

/// The part of `struct ifreq` that `SIOCETHTOOL` uses.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; NAME_SIZE],
    data: *mut c_void,
    rest: [u8; 24 - size_of::<*mut c_void>()],
}

const _: () = assert!(size_of::<EthtoolRequest>() == 40);

/// An operation that a device may take over from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The device verifies the checksums of received packets.
    ReceiveChecksums,
    /// The device computes the checksums of sent packets.
    SendChecksums,
    /// The device segments large sends.
    Segmentation,
    /// The kernel segments large sends late, if the device does not.
    LateSegmentation,
    /// The kernel merges received packets before TCP processes them.
    ReceiveJoining,
}

impl Feature {
    /// Returns the command: `ETHTOOL_GRXCSUM` and similar.
    fn command(self) -> u32 {
        match self {
            Self::ReceiveChecksums => 0x14,
            Self::SendChecksums => 0x16,
            Self::Segmentation => 0x1e,
            Self::LateSegmentation => 0x23,
            Self::ReceiveJoining => 0x2b,
        }
    }
}

/// Returns true if the device `name` has a feature turned on.
///
/// # Errors
/// `InvalidInput` if the name is too long or otherwise invalid; otherwise the kernel's error, such as `ENODEV` or
/// `EOPNOTSUPP`.
pub fn is_on(name: &[u8], feature: Feature) -> io::Result<bool> {
    let mut words = [feature.command(), 0];
    ask(name, &mut words)?;
    Ok(words[1] != 0)
}

/// Returns the current and the maximum size of the receive ring of the device `name`, in packets.
///
/// # Errors
/// The errors of [`is_on`].
pub fn receive_ring_packets(name: &[u8]) -> io::Result<(u32, u32)> {
    // `struct ethtool_ringparam`: the command, four maxima, four current values. Those of the ordinary receive ring
    // come first.
    let mut words = [0; 9];
    words[0] = GET_RINGS;
    ask(name, &mut words)?;
    Ok((words[5], words[1]))
}

fn ask<const WORDS: usize>(name: &[u8], words: &mut [u32; WORDS]) -> io::Result<()> {
    if name.is_empty() || name.len() >= NAME_SIZE || name.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for an interface"));
    }
    let data = words.as_mut_ptr().cast();
    let mut request = EthtoolRequest { name: [0; NAME_SIZE], data, rest: [0; _] };
    request.name[..name.len()].copy_from_slice(name);
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: SIOCETHTOOL reads one `struct ifreq` of 40 bytes, which has the size and layout of `InterfaceRequest`
    // (asserted above). For the commands used here it reads and writes the structure behind `data`: two words for a
    // feature, nine for the rings, which are the sizes of the arrays. They are borrowed during the call.
    unsafe { ioctl(&socket, Setter::<SIOCETHTOOL, _>::new(request))? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_cuts_large_sends_late_and_has_no_rings() {
        assert!(is_on(b"lo", Feature::Segmentation).unwrap());
        assert!(receive_ring_packets(b"lo").is_err());
    }

    #[test]
    fn names_that_do_not_fit_are_not_asked_about() {
        for name in [&b""[..], b"a\0b", b"sixteen-letters-"] {
            let error = is_on(name, Feature::Segmentation).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert!(is_on(b"not-there", Feature::Segmentation).is_err());
    }
}
