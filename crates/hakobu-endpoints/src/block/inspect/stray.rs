//! Paths where devices are, but no device is: a mistyped name would become a file in memory.

use std::fs::{metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::Places;

/// Whether something that is no device, or nothing yet, lies at this path in the file system of
/// `/dev`. What is mounted below it, such as `/dev/shm`, is another file system and fine.
///
/// # Errors
/// When the nearest directory above it that is there cannot be looked at.
pub fn is_stray(places: &Places, path: &Path) -> io::Result<bool> {
    match metadata(path) {
        Ok(found) if found.file_type().is_block_device() || found.file_type().is_char_device() => {
            return Ok(false);
        }
        // A directory gets files of their own names.
        Ok(found) => return Ok(is_of_dev(places, path, found.dev())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    // A link that leads nowhere lies where it is itself.
    if let Ok(link) = symlink_metadata(path) {
        return Ok(is_of_dev(places, path, link.dev()));
    }
    // What is not there would be made in the nearest directory that is.
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

/// Whether a path is in the file system of the devices. Where they have none of their own, what
/// counts is the path.
fn is_of_dev(places: &Places, path: &Path, device: u64) -> bool {
    let Ok(dev) = metadata(&places.dev) else { return false };
    let above = places.dev.parent().and_then(|parent| metadata(parent).ok());
    if above.is_none_or(|above| above.dev() != dev.dev()) {
        return device == dev.dev();
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    device == dev.dev() && real(path).starts_with(real(&places.dev))
}
