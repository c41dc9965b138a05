//! Queries and controls block devices through an open descriptor.
//!
//! Using the descriptor instead of a path ensures that the answer concerns the very device that is read or written.
//! All functions fail with `ENOTTY` on anything but a block device.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl, opcode};

/// The ioctl group of the block layer, `0x12` in `linux/fs.h`.
const GROUP: u8 = 0x12;
const BLKROGET: Opcode = opcode::none(GROUP, 94);
const BLKRRPART: Opcode = opcode::none(GROUP, 95);
const BLKFLSBUF: Opcode = opcode::none(GROUP, 97);
/// `linux/fs.h` has `size_t` here, but the kernel stores 64 bits on all architectures.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(GROUP, 114);
const BLKDISCARD: Opcode = opcode::none(GROUP, 119);
const BLKZEROOUT: Opcode = opcode::none(GROUP, 127);

/// Returns the size of the device in bytes.
///
/// # Errors
/// The kernel's error.
pub fn size_bytes(device: impl AsFd) -> io::Result<u64> {
    // SAFETY: BLKGETSIZE64 stores one `u64` through the pointer, and the getter owns one.
    Ok(unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new())? })
}

/// Returns the size of a logical sector in bytes. Offsets and lengths of direct I/O are multiples of it, and a
/// partition table uses it as its unit.
///
/// # Errors
/// The kernel's error.
pub fn logical_sector_bytes(device: impl AsFd) -> io::Result<u32> {
    Ok(rustix::fs::ioctl_blksszget(device)?)
}

/// Returns the size in bytes that the device can write without reading it first.
///
/// # Errors
/// The kernel's error.
pub fn physical_sector_bytes(device: impl AsFd) -> io::Result<u32> {
    Ok(rustix::fs::ioctl_blkpbszget(device)?)
}

/// Returns true if the kernel refuses all writes to the device.
///
/// # Errors
/// The kernel's error.
pub fn is_read_only(device: impl AsFd) -> io::Result<bool> {
    // SAFETY: BLKROGET stores one `int` through the pointer, and the getter owns one.
    Ok(unsafe { ioctl(device, Getter::<BLKROGET, i32>::new())? } != 0)
}

/// Makes the kernel read the partition table again.
///
/// # Errors
/// `EBUSY` if a partition is in use; `EINVAL` on a device that has no partitions.
pub fn reread_partitions(device: impl AsFd) -> io::Result<()> {
    // SAFETY: BLKRRPART takes no argument.
    unsafe { ioctl(device, NoArg::<BLKRRPART>::new())? };
    Ok(())
}

/// Writes the kernel's cached data of the device, and drops it from the cache.
///
/// # Errors
/// The kernel's error; requires `CAP_SYS_ADMIN`.
pub fn flush_buffers(device: impl AsFd) -> io::Result<()> {
    // SAFETY: BLKFLSBUF takes no argument.
    unsafe { ioctl(device, NoArg::<BLKFLSBUF>::new())? };
    Ok(())
}

/// Tells the device that a range is no longer needed. The content that is read there afterwards depends on the
/// device.
///
/// # Errors
/// `EINVAL` if offset or length is not a multiple of the logical sector or the range exceeds the device, `EOPNOTSUPP`
/// if the device does not support it.
pub fn discard(device: impl AsFd, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two `u64`, which the setter owns during the call.
    unsafe { ioctl(device, Setter::<BLKDISCARD, _>::new([offset_bytes, length_bytes]))? };
    Ok(())
}

/// Makes a range read as zeros with the device's own mechanism. The kernel writes zeros if it has none.
///
/// # Errors
/// `EINVAL` if offset or length is not a multiple of the logical sector or the range exceeds the device.
pub fn zero_out(device: impl AsFd, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
    // SAFETY: BLKZEROOUT reads two `u64`, which the setter owns during the call.
    unsafe { ioctl(device, Setter::<BLKZEROOUT, _>::new([offset_bytes, length_bytes]))? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        // ENOTTY is the error of file systems for unknown requests.
        let is_no_device = |error: io::Error| error.raw_os_error() == Some(25);
        assert!(is_no_device(size_bytes(&file).unwrap_err()));
        assert!(is_no_device(logical_sector_bytes(&file).unwrap_err()));
        assert!(is_no_device(physical_sector_bytes(&file).unwrap_err()));
        assert!(is_no_device(is_read_only(&file).unwrap_err()));
        assert!(is_no_device(reread_partitions(&file).unwrap_err()));
        assert!(is_no_device(flush_buffers(&file).unwrap_err()));
        assert!(is_no_device(discard(&file, 0, 4096).unwrap_err()));
        assert!(is_no_device(zero_out(&file, 0, 4096).unwrap_err()));
    }

    #[test]
    fn the_numbers_are_those_of_the_kernel() {
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            [BLKROGET, BLKRRPART, BLKFLSBUF, BLKGETSIZE64, BLKDISCARD, BLKZEROOUT],
            [0x125e, 0x125f, 0x1261, 0x8008_1272, 0x1277, 0x127f]
        );
    }
}
