//! The header of an ELF program, which names its loader.

use anyhow::{Context, Result, ensure};

/// Returns the loader that an ELF program asks for; `None` when it is static.
pub(super) fn loader(program: &[u8]) -> Result<Option<String>> {
    const LOADER: usize = 3;
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "no 64-bit little-endian ELF file");
    let table = number(program, 32, 8)?;
    let entry_bytes = number(program, 54, 2)?;
    for index in 0..number(program, 56, 2)? {
        let at = table.saturating_add(index.saturating_mul(entry_bytes));
        if number(program, at, 4)? == LOADER {
            let start = number(program, at.saturating_add(8), 8)?;
            let end = start.saturating_add(number(program, at.saturating_add(32), 8)?);
            let name = program.get(start..end).context("the loader's name is cut off")?;
            return Ok(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

/// Returns a little-endian number of `bytes` bytes.
fn number(program: &[u8], at: usize, bytes: usize) -> Result<usize> {
    let part = program.get(at..at.saturating_add(bytes)).context("the header is cut off")?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Ok(usize::try_from(part.iter().rev().fold(0, add))?)
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_loader_of_a_dynamic_program_is_seen() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let loader = loader(&own).unwrap().unwrap();
        assert!(loader.contains("ld-linux"), "{loader}");
    }

    #[test]
    fn headers_that_are_cut_off_are_errors() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        for length in [0, 5, 40, 60, 100] {
            assert!(loader(&own[..length]).is_err(), "{length}");
        }
    }
}
