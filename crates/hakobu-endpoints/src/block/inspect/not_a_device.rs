//! Detects paths where devices are but no device is. A mistyped device name would become a file in memory.

use std::fs::{metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::KernelDirectories;

/// Returns true if `path` is in the file system of `/dev` and is not a device, or does not exist yet. File systems
/// mounted below it, such as `/dev/shm`, are separate and acceptable.
///
/// # Errors
/// If the nearest existing parent directory cannot be read.
pub fn is_stray(places: &KernelDirectories, path: &Path) -> io::Result<bool> {
    match metadata(path) {
        Ok(found) if found.file_type().is_block_device() || found.file_type().is_char_device() => {
            return Ok(false);
        }
        // A directory counts as well, because files would be created in it.
        Ok(found) => return Ok(is_of_dev(places, path, found.dev())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    // A dangling symbolic link counts where the link itself is.
    if let Ok(link) = symlink_metadata(path) {
        return Ok(is_of_dev(places, path, link.dev()));
    }
    // A missing path would be created in its nearest existing parent directory.
    for above in path.ancestors().skip(1) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match metadata(above) {
            Ok(found) => return Ok(is_of_dev(places, above, found.dev())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
    }
    Ok(false)
}

/// Returns true if a path is in the file system of the devices. Without a separate file system, the path decides.
fn is_of_dev(places: &KernelDirectories, path: &Path, device: u64) -> bool {
    let Ok(dev) = metadata(&places.dev) else { return false };
    let above = places.dev.parent().and_then(|parent| metadata(parent).ok());
    if above.is_none_or(|above| above.dev() != dev.dev()) {
        return device == dev.dev();
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    device == dev.dev() && real(path).starts_with(real(&places.dev))
}
