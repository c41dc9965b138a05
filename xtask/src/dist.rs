//! `cargo xtask dist`: the static program that is uploaded where hakobu is not installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Build the static program, `dist/hakobu-static-ARCH`, with its SHA-256 beside it.
#[derive(Debug, clap::Args)]
pub struct DistArgs {
    /// Where the program goes, seen from the workspace.
    #[arg(long, value_name = "DIRECTORY", default_value = "dist")]
    output: PathBuf,
    /// Where it is built: flags of its own need a directory of its own, or each build would undo the other's.
    #[arg(long, value_name = "DIRECTORY", default_value = "target/static")]
    target_dir: PathBuf,
}

/// Builds, checks that nothing is loaded at run time, and prints name and size.
///
/// # Errors
/// When the build fails or its result is not static.
pub fn run(arguments: DistArgs) -> Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = workspace.join(arguments.output);
    let target_dir = workspace.join(arguments.target_dir);
    let machine = env::consts::ARCH;
    let triple = format!("{machine}-unknown-linux-gnu");
    build(&workspace, &triple, &target_dir)?;
    let built = target_dir.join(&triple).join("release/hakobu");
    let program = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
    if let Some(loader) = loader(&program).with_context(|| format!("reading {}", built.display()))? {
        bail!("{} is not static: it asks for {loader}", built.display());
    }
    ensure!(!has_planted_faults(&program), "{} is built with faults on purpose", built.display());
    fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    let name = format!("hakobu-static-{machine}");
    let path = output.join(&name);
    replace(&built, &path)?;
    let digest = sha256(&output, &name)?;
    let digest_path = output.join(format!("{name}.sha256"));
    fs::write(&digest_path, &digest).with_context(|| format!("writing {}", digest_path.display()))?;
    report(&path, program.len(), &digest);
    Ok(())
}

fn report(path: &Path, size_bytes: usize, digest: &str) {
    let digest = digest.split(' ').next().unwrap_or_default();
    println!("{}: {size_bytes} bytes, static, sha256 {digest}", path.display());
}

/// `crt-static` on the gnu target keeps glibc and its fast memcpy. The target must be named: without, the flags would
/// go to build scripts and procedural macros too, and those cannot be static.
fn build(workspace: &Path, triple: &str, target_dir: &Path) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "-p", "hakobu", "--target", triple, "--target-dir"])
        .arg(target_dir)
        .current_dir(workspace)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the static build failed, {status}");
    Ok(())
}

/// Puts the program in place at once: a running hakobu may be about to upload the old one.
fn replace(built: &Path, path: &Path) -> Result<()> {
    let fresh = path.with_extension("new");
    fs::copy(built, &fresh).with_context(|| format!("writing {}", fresh.display()))?;
    fs::rename(&fresh, path).with_context(|| format!("writing {}", path.display()))
}

/// The line that `sha256sum -c` takes.
fn sha256(directory: &Path, name: &str) -> Result<String> {
    let output =
        Command::new("sha256sum").arg(name).current_dir(directory).output().context("running sha256sum")?;
    ensure!(output.status.success(), "sha256sum failed, {}", output.status);
    String::from_utf8(output.stdout).context("reading what sha256sum says")
}

/// Whether it is a build that can be given a fault, to see whether it is found.
fn has_planted_faults(program: &[u8]) -> bool {
    let variable = b"HAKOBU_PLANT";
    program.windows(variable.len()).any(|part| part == variable)
}

/// The loader that an ELF program asks for; `None` when it is static.
fn loader(program: &[u8]) -> Result<Option<String>> {
    const LOADER: u32 = 3;
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "no 64-bit little-endian ELF file");
    let table = number(program, 32, 8)?;
    let entry_bytes = number(program, 54, 2)?;
    for index in 0..number(program, 56, 2)? {
        let at = table.saturating_add(index.saturating_mul(entry_bytes));
        if number(program, at, 4)? == LOADER as usize {
            let start = number(program, at.saturating_add(8), 8)?;
            let end = start.saturating_add(number(program, at.saturating_add(32), 8)?);
            let name = program.get(start..end).context("the loader's name is cut off")?;
            return Ok(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

/// A little-endian number of `bytes` bytes.
fn number(program: &[u8], at: usize, bytes: usize) -> Result<usize> {
    let part = program.get(at..at.saturating_add(bytes)).context("the header is cut off")?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Ok(usize::try_from(part.iter().rev().fold(0, add))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_dynamic_program_is_seen() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let loader = loader(&own).unwrap().unwrap();
        assert!(loader.contains("ld-linux"), "{loader}");
    }

    #[test]
    fn a_build_with_faults_on_purpose_is_seen() {
        assert!(has_planted_faults(b"\x7fELF, HAKOBU_PLANT, and more"));
        assert!(!has_planted_faults(b"\x7fELF, HAKOBU_SETTINGS, and more"));
    }

    #[test]
    fn headers_that_are_cut_off_are_errors() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        for length in [0, 5, 40, 60, 100] {
            assert!(loader(&own[..length]).is_err(), "{length}");
        }
    }
}
