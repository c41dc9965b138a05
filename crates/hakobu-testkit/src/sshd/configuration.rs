//! Writes the configuration of a server and of its client, and provides the tools for sessions.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::options::SshdOptions;

/// The alias of the server in its client's configuration.
pub(super) const ALIAS: &str = "throwaway";
/// The directories with the tools for sessions, besides [`SshdOptions::path_dirs`].
const TOOLS: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// The prefix of programs that are excluded from the tools. The test decides whether a session finds hakobu.
const NO_TOOL: &[u8] = b"hakobu";

pub(super) fn write_server_config(at: &Path, options: &SshdOptions, port: u16) -> io::Result<()> {
    let mut lines = options.config_lines.clone();
    let at_dir = at.display();
    lines.extend([
        format!("ListenAddress {}", options.address),
        format!("Port {port}"),
        format!("HostKey {at_dir}/host_key"),
        format!("AuthorizedKeysFile {at_dir}/authorized_keys"),
        format!("MaxStartups {}", options.max_startups),
        "PidFile none".to_owned(),
        "UsePAM no".to_owned(),
        "StrictModes no".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "PasswordAuthentication no".to_owned(),
    ]);
    if !lines.iter().any(|line| line.starts_with("Subsystem sftp")) {
        lines.push("Subsystem sftp internal-sftp".to_owned());
    }
    if let Some(banner) = &options.banner {
        fs::write(at.join("banner"), banner)?;
        lines.push(format!("Banner {at_dir}/banner"));
    }
    let mut path: Vec<String> = Vec::new();
    for dir in &options.path_dirs {
        path.push(dir.display().to_string());
    }
    path.push(tools()?.display().to_string());
    let mut set_env = format!("SetEnv \"PATH={}\"", path.join(":"));
    if options.login.is_none() {
        // bash then treats a session as a nested shell and does not read ~/.bashrc. That of the user who runs the
        // tests may take long, or wait for a lock that a killed session has left.
        set_env.push_str(" SHLVL=1");
    }
    for (name, value) in &options.set_env {
        set_env.push_str(&format!(" \"{name}={value}\""));
    }
    lines.push(set_env);
    fs::write(at.join("sshd_config"), lines.join("\n") + "\n")
}

pub(super) fn write_client_config(at: &Path, options: &SshdOptions, port: u16) -> io::Result<()> {
    let at_dir = at.display();
    let mut lines = vec![
        format!("Host {ALIAS}"),
        format!("HostName {}", options.address),
        format!("Port {port}"),
        format!("IdentityFile {at_dir}/user_key"),
        "IdentitiesOnly yes".to_owned(),
        "IdentityAgent none".to_owned(),
        "BatchMode yes".to_owned(),
        "StrictHostKeyChecking yes".to_owned(),
        format!("UserKnownHostsFile {at_dir}/known_hosts"),
        "GlobalKnownHostsFile /dev/null".to_owned(),
    ];
    if let Some(login) = &options.login {
        lines.push(format!("User {login}"));
    }
    let key = fs::read_to_string(at.join("host_key.pub"))?;
    fs::write(at.join("known_hosts"), format!("[{}]:{port} {key}", options.address))?;
    fs::write(at.join("ssh_config"), lines.join("\n  ") + "\n")
}

/// Returns a directory that contains only the tools of the machine. It is shared by the servers of all tests and
/// never removed, since processes that a session has started may outlive its server and still need tools.
fn tools() -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for directory in TOOLS {
        fs::metadata(directory).and_then(|found| found.modified()).ok().hash(&mut hasher);
    }
    let user = rustix::process::geteuid().as_raw();
    let shared = std::env::temp_dir().join(format!("hakobu-test-tools-{user}-{:016x}", hasher.finish()));
    if shared.exists() {
        return Ok(shared);
    }
    let new = tempfile::Builder::new().prefix("hakobu-test-tools-new-").tempdir()?;
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
    let entries = TOOLS.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(NO_TOOL) {
            continue;
        }
        match symlink(entry.path(), new.path().join(entry.file_name())) {
            // A tool of the same name in an earlier directory has precedence.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    match fs::rename(new.path(), &shared) {
        // Another test created it first.
        Err(_) if shared.exists() => {}
        renamed => {
            renamed?;
            let _ = new.keep();
        }
    }
    Ok(shared)
}
