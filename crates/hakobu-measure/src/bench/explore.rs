//! Finds out everything about the two machines that must be known before the first run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::case::EndKinds;
use super::cleanup_shell::CleanupShell;
use super::error::{BenchError, BenchResult, words_of};
use super::facts::facts_here;
use super::host::look_at_host;
use super::plan::PlanFacts;
use super::scratch::{IN_MEMORY, LEAST_BYTES, NearDirectory, ON_DISK, ScratchPair, is_in_memory};
use super::settings::{BenchMachines, Settings, out};
use super::shell::is_plain;
use super::tools::{self, Tools};

/// Finds out everything that must be known before the first run.
pub(super) fn explore(
    settings: &Settings,
    say: &mut dyn FnMut(String),
    stop: &dyn Fn() -> bool,
) -> BenchResult<BenchMachines> {
    let keeper = CleanupShell::start().map_err(BenchError::io("starting sh"))?;
    let mut left_out = Vec::new();
    let near_tools = {
        let output = Command::new("sh").args(["-c", &tools::question()]).stdin(Stdio::null()).output();
        let output = output.map_err(BenchError::io("starting sh"))?;
        tools::answer(String::from_utf8_lossy(&output.stdout).lines())
    };
    let disk_below = settings.scratch.clone().unwrap_or_else(|| PathBuf::from(ON_DISK));
    let disk_here = NearDirectory::make(&disk_below, &keeper);
    if let (Some(typed), Err(error)) = (&settings.scratch, &disk_here) {
        return Err(no_scratch(typed, error));
    }
    let memory_here = NearDirectory::make(Path::new(IN_MEMORY), &keeper).or_else(|_| {
        let why =
            format!("nothing can be written to {IN_MEMORY}: files that the cache holds stand in for it");
        left_out.push(out("memory here", why));
        NearDirectory::make(&disk_below, &keeper)
    });
    let memory_here = memory_here.map_err(|error| no_scratch(&disk_below, &error))?;
    let near_program = near_program(&settings.program, &memory_here)?;
    let settings_of_hakobu = settings_of_hakobu(&settings.of_hakobu, &memory_here)?;
    let mut ground =
        PlanFacts { has_host: settings.login.is_some(), full: settings.full, ..PlanFacts::default() };
    ground.tools = Tools { here: near_tools, ..Tools::default() };
    let mut site = BenchMachines {
        memory: ScratchPair::new(memory_here, None),
        disk: None,
        far: None,
        ground,
        left_out,
        machines: vec![facts_here()],
        same_machine: settings.login.is_none(),
        same_network: settings.login.is_none(),
        address: None,
        port: 0,
        near_port: None,
        back: None,
        near_program,
        settings_of_hakobu,
        far_program: String::new(),
        far_program_typed: None,
        ssh: None,
        _beside: None,
        login_seconds: 0.0,
        keeper,
    };
    let mut far_disk = Ok(None);
    if let Some(login) = &settings.login {
        say(format!("looking at {}", login.typed));
        far_disk = look_at_host(&mut site, settings, login, stop)?;
    }
    site.disk = match (disk_here, far_disk) {
        (Ok(here), Ok(there)) if !is_in_memory(&disk_below) => Some(ScratchPair::new(here, there)),
        (Ok(_), Ok(_)) => {
            let why = format!("{} is in memory; --scratch names a directory on a disk", disk_below.display());
            site.ground.no_ends.push((EndKinds::DiskToDisk, why));
            None
        }
        (Err(error), _) => {
            let why = format!(
                "nothing can be written to {} ({}); --scratch names another place",
                disk_below.display(),
                words_of(&error)
            );
            site.ground.no_ends.push((EndKinds::DiskToDisk, why));
            None
        }
        (_, Err(why)) => {
            site.ground.no_ends.push((EndKinds::DiskToDisk, why));
            None
        }
    };
    enough_room(&mut site)?;
    Ok(site)
}

fn no_scratch(below: &Path, error: &std::io::Error) -> BenchError {
    let below = below.display();
    BenchError::Nothing(format!(
        "no scratch directory can be made in {below}: {}; name another place with --scratch",
        words_of(error)
    ))
}

/// Excludes memory or disk if its free space does not suffice.
fn enough_room(site: &mut BenchMachines) -> BenchResult<()> {
    let words = |bytes: u64| format!("a run could have {} MB, and 16 MiB is the least", bytes / 1_000_000);
    if site.memory.most_bytes < LEAST_BYTES {
        return Err(BenchError::Nothing(format!(
            "there is no room in memory: {}",
            words(site.memory.most_bytes)
        )));
    }
    if let Some(disk) = &site.disk
        && disk.most_bytes < LEAST_BYTES
    {
        site.ground
            .no_ends
            .push((EndKinds::DiskToDisk, format!("there is no room: {}", words(disk.most_bytes))));
        site.disk = None;
    }
    Ok(())
}

/// Returns a plain path to this program. If its own path is not plain, creates a symbolic link.
fn near_program(program: &Path, directory: &NearDirectory) -> BenchResult<String> {
    if let Some(path) = program.to_str().filter(|path| is_plain(path)) {
        return Ok(path.to_owned());
    }
    let link = format!("{}/hakobu", directory.path());
    std::os::unix::fs::symlink(program, &link).map_err(BenchError::io(format!("making {link}")))?;
    Ok(link)
}

/// Writes the settings for hakobu's rows and returns the path, or `none` if there are none.
fn settings_of_hakobu(text: &str, directory: &NearDirectory) -> BenchResult<String> {
    use std::os::unix::fs::PermissionsExt;
    if text.is_empty() {
        return Ok("none".to_owned());
    }
    let path = format!("{}/settings", directory.path());
    // hakobu ignores settings files that others can write.
    std::fs::write(&path, text)
        .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)))
        .map_err(BenchError::io(format!("writing {path}")))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::wrapper::write_wrapper;
    use super::*;

    #[test]
    fn a_program_of_an_odd_path_is_started_by_a_link() {
        let keeper = CleanupShell::start().unwrap();
        let directory = NearDirectory::make(Path::new(IN_MEMORY), &keeper).unwrap();
        let odd = tempfile::Builder::new().prefix("it's my $place").tempdir().unwrap();
        let program = odd.path().join("hakobu");
        write_wrapper(&program, &["echo".to_owned(), "it".to_owned()]).unwrap();
        let path = near_program(&program, &directory).unwrap();
        assert!(is_plain(&path));
        assert_eq!(Command::new(&path).output().unwrap().stdout, b"it\n");
        assert_eq!(near_program(Path::new("/bin/hakobu"), &directory).unwrap(), "/bin/hakobu");
        drop(directory);
        assert!(program.exists() && !Path::new(&path).exists());
    }
}
