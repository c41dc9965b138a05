//! `cargo xtask book`: builds the site of the book in English and Japanese, and checks its links.
//!
//! The pages stay where the repository has them. The tables of contents, `docs/book/SUMMARY.md` and `docs/book/ja/SUMMARY.md`, name
//! the pages of each language. Their sources are written to `target/book-source`, with links that fit the layout of the site, and
//! mdBook builds the site from there. English is at the root of the site, Japanese in `ja`.

mod check;
mod commands;
mod help;
mod japanese;
mod layout;
mod links;
mod mdbook;
mod source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use layout::BookLanguage;
use source::Sources;

/// Build the site of the book, in English and Japanese, and check its links
#[derive(Debug, Args)]
pub struct BookArgs {
    /// Program whose help becomes the pages of the commands [default: built from this workspace]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Directory of the site, which is replaced [default: target/book]
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// Returns an error if mdBook is missing, if a build fails, or if a link of the site leads nowhere.
pub fn run(args: BookArgs) -> Result<()> {
    mdbook::require()?;
    let workspace = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let target_dir = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let program = match args.program {
        Some(program) => program,
        None => built(&workspace, &target_dir)?,
    };
    let output = match args.output {
        Some(output) => output,
        None => target_dir.join("book"),
    };
    let sources = Sources::read(&workspace, commands::pages(&program)?)?;
    let directory = target_dir.join("book-source");
    sources.write(&workspace, &directory)?;
    fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
    let output = fs::canonicalize(&output)?;
    // mdBook empties the directory that it builds into, so the language at the root comes first.
    for language in BookLanguage::ALL {
        mdbook::build(&directory.join(language.name()), &output.join(language.folder()))?;
    }
    let checked = check::check(&output)?;
    println!("{}: {} pages, {} links", output.join("index.html").display(), checked.pages, checked.links);
    Ok(())
}

/// Builds the program and returns its path.
fn built(workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "-p", "hakobu"])
        .current_dir(workspace)
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the build failed, {status}");
    Ok(target_dir.join("debug/hakobu"))
}
