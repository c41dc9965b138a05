//! Builds the static program and checks it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::elf;
use super::linked::LinkedPackages;

/// The maximum size of a released program, because it is uploaded to hosts that lack it before each transfer.
const PROGRAM_BYTES_MAX: usize = 30_000_000;

/// A kind of machine for which releases are made, with its names in different formats.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TargetMachine {
    /// The name in `uname -m`, RPM and Rust.
    pub name: &'static str,
    /// The name in Debian.
    pub debian: &'static str,
    /// The name in Go and in image formats.
    pub oci: &'static str,
}

/// All kinds of machines that a release is made for.
pub(super) const MACHINES: [TargetMachine; 2] = [
    TargetMachine { name: "x86_64", debian: "amd64", oci: "amd64" },
    TargetMachine { name: "aarch64", debian: "arm64", oci: "arm64" },
];

impl TargetMachine {
    /// Returns the kind of the machine that this runs on.
    pub(super) fn here() -> Result<&'static Self> {
        let found = MACHINES.iter().find(|machine| machine.name == env::consts::ARCH);
        found.with_context(|| format!("no release is made for {}", env::consts::ARCH))
    }

    /// Returns the target as rustc names it: the gnu one, for glibc and its fast memcpy.
    pub(super) fn triple(&self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }

    /// Returns the linker of a cross build, which Debian installs under this name.
    fn linker(&self) -> String {
        format!("{}-linux-gnu-gcc", self.name)
    }
}

/// How a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    /// The release build, for development.
    Release,
    /// Smaller and much slower to build, for distribution.
    Dist,
}

/// A linked library that is not a package of cargo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Library {
    pub name: &'static str,
    pub version: String,
    pub licence: &'static str,
}

/// The source tree with the tools that build it.
#[derive(Debug)]
pub(super) struct BuildEnvironment {
    cargo: OsString,
    workspace: PathBuf,
    target_dir: PathBuf,
    sysroot: PathBuf,
    rust_version: String,
    rust_commit: String,
}

impl BuildEnvironment {
    /// Opens the tree that this program was built from. `target_dir` is relative to it.
    pub(super) fn open(target_dir: &Path) -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let workspace =
            workspace.canonicalize().with_context(|| format!("opening {}", workspace.display()))?;
        let version = output_of(Command::new("rustc").arg("-vV"))?;
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        Ok(Self {
            cargo: env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            target_dir: workspace.join(target_dir),
            workspace,
            sysroot: PathBuf::from(sysroot.trim()),
            rust_version: field(&version, "release")?,
            rust_commit: field(&version, "commit-hash")?,
        })
    }

    /// Returns the root of the source tree, as an absolute path without links.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns a command that runs cargo in the source tree.
    pub(super) fn cargo(&self) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo.current_dir(&self.workspace);
        cargo
    }

    /// Returns what a build for `machine` needs and this machine lacks, or `None` if it can be built.
    pub(super) fn lacking(&self, machine: &TargetMachine) -> Option<String> {
        let (triple, linker) = (machine.triple(), machine.linker());
        if !self.sysroot.join("lib/rustlib").join(&triple).join("lib").is_dir() {
            return Some(format!("its Rust library: rustup target add {triple}"));
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).any(|directory| directory.join(&linker).is_file());
        let packages = format!("gcc-{0}-linux-gnu and libc6-dev-{1}-cross", machine.name, machine.debian);
        (!found).then(|| format!("its linker {linker}: in Debian {packages}"))
    }

    /// Returns the libraries in the program that cargo does not know.
    pub(super) fn libraries(&self, machine: &TargetMachine) -> Vec<Library> {
        let rust_version = self.rust_version.clone();
        let mut libraries =
            vec![Library { name: "rust-std", version: rust_version, licence: "MIT OR Apache-2.0" }];
        // The version of a library for another machine is known only by running its code.
        let is_here = TargetMachine::here().is_ok_and(|here| here == machine);
        let said = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
        let version = said.trim().strip_prefix("glibc ").filter(|_| is_here).unwrap_or("unknown").to_owned();
        libraries.push(Library { name: "glibc", version, licence: "LGPL-2.1-or-later" });
        libraries
    }

    /// Builds the program and checks it.
    ///
    /// # Errors
    /// The build fails, or its result does not pass the checks.
    pub(super) fn build(
        &self,
        machine: &TargetMachine,
        profile: Profile,
        linked: &LinkedPackages,
    ) -> Result<Vec<u8>> {
        let remaps = self.remaps(linked);
        self.run_cargo(machine, profile, &remaps)?;
        let directory = match profile {
            Profile::Release => "release",
            Profile::Dist => "dist",
        };
        let built = self.target_dir.join(machine.triple()).join(directory).join("hakobu");
        let program = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
        check(&program, &remaps).with_context(|| format!("checking {}", built.display()))?;
        let (size, most) = (program.len(), PROGRAM_BYTES_MAX);
        ensure!(
            profile == Profile::Release || size <= most,
            "{} has {size} bytes, more than the {most} that are allowed",
            built.display()
        );
        Ok(program)
    }

    /// Runs cargo. `crt-static` makes the program static. The target must be named, because the flags would otherwise
    /// apply to build scripts and procedural macros, which cannot be static.
    fn run_cargo(
        &self,
        machine: &TargetMachine,
        profile: Profile,
        remaps: &[(PathBuf, String)],
    ) -> Result<()> {
        let triple = machine.triple();
        let mut cargo = self.cargo();
        cargo.args(["build", "--locked", "-p", "hakobu", "--target", &triple, "--target-dir"]);
        cargo.arg(&self.target_dir).env("CARGO_ENCODED_RUSTFLAGS", flags(remaps));
        // No panic passes through C, which needs no tables for it.
        cargo.env("CFLAGS", "-fno-unwind-tables -fno-asynchronous-unwind-tables");
        match profile {
            Profile::Release => cargo.arg("--release").env("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
            Profile::Dist => cargo.args(["--profile", "dist"]),
        };
        if TargetMachine::here().is_ok_and(|here| here != machine) {
            let variable = triple.to_uppercase().replace('-', "_");
            cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), machine.linker());
        }
        let status = cargo.status().context("running cargo")?;
        ensure!(status.success(), "the static build failed, {status}");
        Ok(())
    }

    /// Returns the paths of this machine that panic messages would contain, with their replacements. The last one
    /// that matches is used.
    fn remaps(&self, linked: &LinkedPackages) -> Vec<(PathBuf, String)> {
        let mut remaps = vec![
            (self.workspace.clone(), "/hakobu".to_owned()),
            (self.target_dir.clone(), "/target".to_owned()),
            (self.sysroot.clone(), "/rust".to_owned()),
            // The path that the standard library has when its source is not installed.
            (self.sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{}", self.rust_commit)),
        ];
        // The name of this folder depends on the address of the registry.
        remaps.extend(
            linked.source_directories().map(|directory| (directory.to_owned(), "/crates".to_owned())),
        );
        remaps
    }
}

/// Returns the flags of rustc in a form that allows paths with blanks.
fn flags(remaps: &[(PathBuf, String)]) -> OsString {
    let mut flags = OsString::from("-Ctarget-feature=+crt-static");
    for (from, to) in remaps {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    flags
}

/// Refuses a program that needs a loader, supports faults on purpose, or contains paths of this machine.
fn check(program: &[u8], remaps: &[(PathBuf, String)]) -> Result<()> {
    if let Some(loader) = elf::loader(program)? {
        bail!("it is not static: it asks for {loader}");
    }
    ensure!(!contains(program, b"HAKOBU_PLANT"), "it is built with faults on purpose");
    for (path, _) in remaps {
        let is_named = contains(program, path.as_os_str().as_encoded_bytes());
        ensure!(!is_named, "it names a path of this machine: {}", path.display());
    }
    Ok(())
}

fn contains(program: &[u8], words: &[u8]) -> bool {
    program.windows(words.len()).any(|part| part == words)
}

/// Returns the output of a command, which has to succeed.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed, {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of {command:?}"))
}

/// Returns a value of `rustc -vV`.
fn field(text: &str, name: &str) -> Result<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Ok(value.with_context(|| format!("rustc -vV says no {name}"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaps() -> Vec<(PathBuf, String)> {
        vec![(PathBuf::from("/home/me/my src"), "/hakobu".to_owned())]
    }

    /// Returns the header of a program without a part that names a loader.
    fn program(words: &[u8]) -> Vec<u8> {
        let mut program = vec![0; 64];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program.extend_from_slice(words);
        program
    }

    #[test]
    fn programs_that_may_not_leave_the_machine_are_refused() {
        check(&program(b"HAKOBU_SETTINGS /hakobu/crates"), &remaps()).unwrap();
        for (words, reason) in [
            (&b"and HAKOBU_PLANT, and more"[..], "faults on purpose"),
            (b"panicked at /home/me/my src/main.rs", "names a path of this machine: /home/me/my src"),
        ] {
            let error = check(&program(words), &remaps()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let error = check(&own, &remaps()).unwrap_err().to_string();
        assert!(error.contains("not static"), "{error}");
    }

    #[test]
    fn each_path_is_one_flag_whatever_is_in_it() {
        let flags = flags(&remaps()).into_string().unwrap();
        let flags: Vec<_> = flags.split('\x1f').collect();
        assert_eq!(flags, ["-Ctarget-feature=+crt-static", "--remap-path-prefix=/home/me/my src=/hakobu"]);
    }

    #[test]
    fn values_of_the_compiler_are_found() {
        let text = "rustc 1.95.0\nbinary: rustc\ncommit-hash: 59807\nrelease: 1.95.0\n";
        assert_eq!(field(text, "release").unwrap(), "1.95.0");
        assert_eq!(field(text, "commit-hash").unwrap(), "59807");
        assert!(field(text, "LLVM version").is_err());
    }
}
