//! Tests of queries and operations of the kernel on devices.

use std::os::unix::fs::FileExt;

use hakobu_sys::block;
use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::sshd::no_root;

use super::{MIB, device, writable};

#[test]
fn sizes_are_those_that_were_asked_for() {
    if no_root() {
        return;
    }
    for (option, sector_bytes) in [("512", 512), ("4096", 4096)] {
        let device = LoopDevice::with_options(8 * MIB, &["--sector-size", option]).unwrap();
        let file = writable(device.path());
        assert_eq!(block::size_bytes(&file).unwrap(), 8 * MIB);
        assert_eq!(block::logical_sector_bytes(&file).unwrap(), sector_bytes);
        assert!(block::physical_sector_bytes(&file).unwrap() >= sector_bytes);
        assert!(!block::is_read_only(&file).unwrap());
    }
}

#[test]
fn ranges_become_zeros_and_others_stay() {
    if no_root() {
        return;
    }
    let device = device();
    let file = writable(device.path());
    file.write_all_at(&[7; 4 * 4096], 0).unwrap();
    file.sync_all().unwrap();
    block::flush_buffers(&file).unwrap();
    block::zero_out(&file, 4096, 4096).unwrap();
    block::discard(&file, 8192, 4096).unwrap();
    let mut bytes = vec![0; 4 * 4096];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..4096].iter().all(|&byte| byte == 7));
    // A loop device punches a hole into its file for both operations.
    assert!(bytes[4096..12288].iter().all(|&byte| byte == 0));
    assert!(bytes[12288..].iter().all(|&byte| byte == 7));
}

#[test]
fn ranges_that_do_not_fit_are_errors() {
    if no_root() {
        return;
    }
    let device = device();
    let file = writable(device.path());
    for (offset_bytes, length_bytes) in [(1, 512), (0, 100), (32 * MIB, 4096), (u64::MAX - 511, 512)] {
        assert!(block::zero_out(&file, offset_bytes, length_bytes).is_err(), "{offset_bytes} {length_bytes}");
    }
    assert!(block::reread_partitions(&file).is_err(), "this one was set up without partitions");
    let device = LoopDevice::with_options(8 * MIB, &["--partscan"]).unwrap();
    block::reread_partitions(writable(device.path())).unwrap();
}
