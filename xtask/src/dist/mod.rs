//! `cargo xtask dist`: everything that a release needs, made on one machine.
//!
//! The results depend only on the commit and the toolchain: times are the commit's, owners are root, entries are
//! sorted, and the program contains no path of the machine that built it.

mod contents;
mod deb;
mod elf;
mod linked;
mod notices;
mod oci;
mod program;
mod release;
mod rpm;
mod sbom;
mod sums;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use contents::{Contents, TARBALL_LAYOUT};
use linked::LinkedPackages;
use program::{BuildEnvironment, MACHINES, Profile, TargetMachine};
use release::Release;
use sums::DistResults;

/// Make everything that a release needs: the static program, packages, an image, a bill of materials
#[derive(Debug, clap::Args)]
pub struct DistArgs {
    /// Make only the static program, `hakobu-static-ARCH`, which hakobu uploads to hosts that lack it
    #[arg(long)]
    program_only: bool,
    /// Directory for the results, relative to the workspace
    #[arg(long, value_name = "DIRECTORY", default_value = "dist")]
    output: PathBuf,
    /// Build directory, relative to the workspace; not the usual one, since builds with other flags would undo each other
    #[arg(long, value_name = "DIRECTORY", default_value = "target/static")]
    target_dir: PathBuf,
}

/// Builds the program and, unless `--program-only` is given, packs it in all formats.
///
/// # Errors
/// A build fails, the program is not static, too large or contains paths of this machine, or a result cannot be
/// written.
pub fn run(arguments: DistArgs) -> Result<()> {
    let environment = BuildEnvironment::open(&arguments.target_dir)?;
    let mut results = DistResults::open(&environment.workspace().join(arguments.output))?;
    let here = TargetMachine::here()?;
    let linked = LinkedPackages::read(&environment, here)?;
    if arguments.program_only {
        let program = environment.build(here, Profile::Release, &linked)?;
        add_program(&mut results, here, &program)?;
        return Ok(());
    }
    // The program embeds it.
    crate::ui::build(environment.workspace())?;
    let release = Release::of(&linked, environment.workspace())?;
    let program = environment.build(here, Profile::Dist, &linked)?;
    let path = add_program(&mut results, here, &program)?;
    let contents = Contents::of(&path, environment.workspace(), notices::text(&linked)?)?;
    add_packages(&mut results, &release, here, &contents, &program)?;
    add_bill(&mut results, &environment, &release, here, &linked, &program)?;
    for machine in MACHINES.iter().filter(|machine| *machine != here) {
        if let Some(lacking) = environment.lacking(machine) {
            println!("{}: left out, since this machine lacks {lacking}", machine.name);
            continue;
        }
        let linked = LinkedPackages::read(&environment, machine)?;
        let program = environment.build(machine, Profile::Dist, &linked)?;
        add_program(&mut results, machine, &program)?;
        add_packages(&mut results, &release, machine, &contents, &program)?;
        add_bill(&mut results, &environment, &release, machine, &linked, &program)?;
    }
    add_installer(&mut results, environment.workspace())?;
    results.finish()
}

/// Adds the program under the name that hakobu looks for when it uploads itself, with its digest beside it.
fn add_program(results: &mut DistResults, machine: &TargetMachine, program: &[u8]) -> Result<PathBuf> {
    let name = format!("hakobu-static-{}", machine.name);
    let path = results.add(&name, program, 0o755)?;
    results.add_digest(&name)?;
    Ok(path)
}

/// Adds the tarball, both packages and the image for one machine.
fn add_packages(
    results: &mut DistResults,
    release: &Release,
    machine: &TargetMachine,
    contents: &Contents,
    program: &[u8],
) -> Result<()> {
    let (version, arch) = (&release.version, machine.name);
    let top = format!("hakobu-{version}-{arch}-linux");
    let tar = tarball::tar(&contents.files(program, &TARBALL_LAYOUT)?, &format!("{top}/"), release.epoch)?;
    results.add(&format!("{top}.tar.gz"), &tarball::gzip(&tar)?, 0o644)?;

    let name = format!("hakobu_{}_{}.deb", deb::version(release), machine.debian);
    results.add(&name, &deb::package(release, machine, contents, program)?, 0o644)?;

    let name = format!("hakobu-{}.{arch}.rpm", rpm::version(release));
    results.add(&name, &rpm::package(release, machine, contents, program)?, 0o644)?;

    let name = format!("hakobu-{version}-{arch}-oci");
    let layout = oci::layout(release, machine, contents, program)?;
    results.add_directory(&name, &layout)?;
    results.add(&format!("{name}.tar"), &tarball::tar(&layout, "", release.epoch)?, 0o644)?;
    Ok(())
}

/// Adds the bill of materials for one machine's program.
fn add_bill(
    results: &mut DistResults,
    environment: &BuildEnvironment,
    release: &Release,
    machine: &TargetMachine,
    linked: &LinkedPackages,
    program: &[u8],
) -> Result<()> {
    let bill = sbom::bill(release, linked, &environment.libraries(machine), program)?;
    let name = format!("hakobu-{}-{}.cdx.json", release.version, machine.name);
    results.add(&name, &bill, 0o644)?;
    Ok(())
}

/// Adds the script that installs the tarball, so that the results are complete without the source tree.
fn add_installer(results: &mut DistResults, workspace: &Path) -> Result<()> {
    let path = workspace.join("install.sh");
    let script = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    results.add("install.sh", &script, 0o755)?;
    Ok(())
}
