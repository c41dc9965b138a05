//! Creates the script that stands for the user's ssh with its options.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{BenchError, BenchResult};
use super::scratch::{FOR_LINKS, NearDirectory};
use super::settings::BenchMachines;
use super::shell::quoted;

/// Puts the wrapper beside the data in memory, or into `/tmp` if nothing can be executed there.
pub(super) fn place_wrapper(site: &mut BenchMachines, words: &[String]) -> BenchResult<PathBuf> {
    let in_memory = Path::new(site.memory.near.path()).join("ssh");
    write_wrapper(&in_memory, words)?;
    let runs = Command::new(&in_memory).arg("-V").stdin(Stdio::null()).stderr(Stdio::null()).status();
    if runs.is_ok() {
        return Ok(in_memory);
    }
    let elsewhere = NearDirectory::make(Path::new(FOR_LINKS), &site.keeper);
    let elsewhere = elsewhere.map_err(BenchError::io("making a directory in /tmp"))?;
    let ssh = Path::new(elsewhere.path()).join("ssh");
    write_wrapper(&ssh, words)?;
    site._beside = Some(elsewhere);
    Ok(ssh)
}

/// Writes a script that runs the user's ssh with its options, for tools that accept only a program name.
pub(super) fn write_wrapper(path: &Path, words: &[String]) -> BenchResult<()> {
    use std::os::unix::fs::PermissionsExt;
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" "));
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)))
        .map_err(BenchError::io(format!("writing {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapper_gives_every_word_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ssh");
        write_wrapper(&path, &["printf".to_owned(), "%s.".to_owned(), "it's a $word".to_owned()]).unwrap();
        let output = Command::new("sh").arg("-c").arg(format!("{} more", path.display())).output().unwrap();
        assert_eq!(output.stdout, b"it's a $word.more.");
    }
}
