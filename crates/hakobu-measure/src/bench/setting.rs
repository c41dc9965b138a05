//! What the user wants measured, and what is found of the two machines before anything is.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::case::Ends;
use super::error::{Error, Result, words_of};
use super::far::FarShell;
use super::keeper::Keeper;
use super::lines::Back;
use super::near;
use super::plan::{Ground, LeftOut};
use super::ports::{free_port, near_port, no_near_port, no_port};
use super::result::MachineFacts;
use super::scratch::{FOR_LINKS, IN_MEMORY, LEAST_BYTES, NearDirectory, ON_DISK, Place, is_in_memory};
use super::shell::{is_plain, joined, quoted};
use super::tools::{self, Tools};

/// Besides the user's own: nobody is asked anything, and each run logs in anew, as the user's would.
const SSH_OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ControlMaster=no",
    "ControlPath=none",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ForwardAgent=no",
];
/// How long a login back may take.
const BACK_LIMIT: Duration = Duration::from_secs(15);
const BACK_CONNECT_S: u32 = 5;

/// A login on the other machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The host as it was typed, for people.
    pub typed: String,
    /// The user, if one was typed.
    pub user: Option<String>,
    /// The name or address.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
    /// The user's ssh and its options.
    pub ssh: Vec<String>,
}

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The other machine, if there is one.
    pub login: Option<Login>,
    /// Every one, and not a subset.
    pub full: bool,
    /// The whole bench takes about so long.
    pub budget: Duration,
    /// A directory on a disk here.
    pub scratch: Option<PathBuf>,
    /// The same over there.
    pub far_scratch: Option<String>,
    /// How the host reaches this machine, where that is not the address that it sees.
    pub back: Option<Back>,
    /// The port over there that ways with a connection of their own use.
    pub port: Option<u16>,
    /// This program.
    pub program: PathBuf,
    /// Where it is over there, if it is not on the PATH; without control characters.
    pub far_program: Option<String>,
    /// The settings file of hakobu's rows, which read no other one.
    pub of_hakobu: String,
}

/// The machines, and what of the plan they can do.
pub(super) struct Site {
    pub memory: Place,
    pub disk: Option<Place>,
    pub far: Option<FarShell>,
    pub ground: Ground,
    pub left_out: Vec<LeftOut>,
    pub machines: Vec<MachineFacts>,
    pub same_machine: bool,
    pub same_network: bool,
    /// The address of the host at which it was logged in to.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The address at which the host reaches this machine, and a free port here.
    pub near_port: Option<(String, u16)>,
    pub back: Option<Back>,
    /// This program by a plain path, as the host may start it.
    pub near_program: String,
    /// What it is to read for settings.
    pub settings_of_hakobu: String,
    /// That over there; empty where there is none yet.
    pub far_program: String,
    /// Its own path, where it stays when the bench is over.
    pub far_program_typed: Option<String>,
    pub ssh: Option<PathBuf>,
    /// Where its wrapper lies if nothing can be run from memory.
    pub _beside: Option<NearDirectory>,
    /// How long a login takes with a command that does nothing.
    pub login_seconds: f64,
    /// Clears away where this process cannot. It ends after all else.
    pub keeper: Keeper,
}

/// The words of ssh with what a bench adds, and where the login goes.
pub(super) fn ssh_words(login: &Login) -> Vec<String> {
    let mut words = login.ssh.clone();
    words.extend(SSH_OPTIONS.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
    words.push("-T".to_owned());
    if let Some(user) = &login.user {
        words.extend(["-l".to_owned(), user.clone()]);
    }
    if let Some(port) = login.port {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    words
}

/// The words for hakobu, which makes what it shares between its own connections itself.
pub(super) fn ssh_of_hakobu(login: &Login) -> String {
    let mut words = login.ssh.clone();
    words.extend(SSH_OPTIONS[..3].iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
    joined(&words)
}

/// The host as hakobu takes it, up to the path.
pub(super) fn hakobu_host(login: &Login) -> String {
    let user = login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let host = copy_host(&login.host);
    match login.port {
        Some(port) => format!("ssh://{user}{host}:{port}"),
        None => format!("{user}{host}:"),
    }
}

/// The host as scp and rsync take it.
pub(super) fn copy_host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Finds out all that is to be known before the first run.
pub(super) fn explore(
    settings: &Settings,
    say: &mut dyn FnMut(String),
    stop: &dyn Fn() -> bool,
) -> Result<Site> {
    let keeper = Keeper::start().map_err(Error::io("starting sh"))?;
    let mut left_out = Vec::new();
    let near_tools = {
        let output = Command::new("sh").args(["-c", &tools::question()]).stdin(Stdio::null()).output();
        let output = output.map_err(Error::io("starting sh"))?;
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
    let mut ground = Ground { has_host: settings.login.is_some(), full: settings.full, ..Ground::default() };
    ground.tools = Tools { here: near_tools, ..Tools::default() };
    let mut site = Site {
        memory: Place::new(memory_here, None),
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
        (Ok(here), Ok(there)) if !is_in_memory(&disk_below) => Some(Place::new(here, there)),
        (Ok(_), Ok(_)) => {
            let why = format!("{} is in memory; --scratch names a directory on a disk", disk_below.display());
            site.ground.no_ends.push((Ends::DiskToDisk, why));
            None
        }
        (Err(error), _) => {
            let why = format!(
                "nothing can be written to {} ({}); --scratch names another place",
                disk_below.display(),
                words_of(&error)
            );
            site.ground.no_ends.push((Ends::DiskToDisk, why));
            None
        }
        (_, Err(why)) => {
            site.ground.no_ends.push((Ends::DiskToDisk, why));
            None
        }
    };
    enough_room(&mut site)?;
    Ok(site)
}

fn no_scratch(below: &Path, error: &std::io::Error) -> Error {
    let below = below.display();
    Error::Nothing(format!(
        "no scratch directory can be made in {below}: {}; name another place with --scratch",
        words_of(error)
    ))
}

/// Leaves out what there is no room for.
fn enough_room(site: &mut Site) -> Result<()> {
    let words = |bytes: u64| format!("a run could have {} MB, and 16 MiB is the least", bytes / 1_000_000);
    if site.memory.most_bytes < LEAST_BYTES {
        return Err(Error::Nothing(format!("there is no room in memory: {}", words(site.memory.most_bytes))));
    }
    if let Some(disk) = &site.disk
        && disk.most_bytes < LEAST_BYTES
    {
        site.ground.no_ends.push((Ends::DiskToDisk, format!("there is no room: {}", words(disk.most_bytes))));
        site.disk = None;
    }
    Ok(())
}

fn out(what: &str, why: String) -> LeftOut {
    LeftOut { what: what.to_owned(), why }
}

type FarDisk = std::result::Result<Option<(String, u64)>, String>;

/// Logs in, and finds out what the host is and has. Gives its directory on a disk, or why there is none.
fn look_at_host(
    site: &mut Site,
    settings: &Settings,
    login: &Login,
    stop: &dyn Fn() -> bool,
) -> Result<FarDisk> {
    let is_ssh = |word: &String| word.rsplit('/').next() == Some("ssh");
    if !login.ssh.iter().any(is_ssh) {
        return Err(Error::Nothing(
            "bench takes OpenSSH's ssh: its options keep runs from asking anything".to_owned(),
        ));
    }
    let words = ssh_words(login);
    let ssh = place_wrapper(site, &words)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--").arg(&login.host);
    let mut far = FarShell::open(command, &login.typed, stop)?;
    let facts = far.ask(&format!("{}\n{FACTS}", tools::question()))?;
    let there = tools::answer(facts.iter().map(String::as_str));
    let value =
        |key: &str| facts.iter().find_map(|line| line.strip_prefix(key)).map(|text| text.trim().to_owned());
    site.same_machine = value("boot ").is_some_and(|boot| Some(boot) == near::boot());
    site.same_network = site.same_machine && value("network ") == near::network();
    site.machines.push(MachineFacts {
        whose: login.typed.clone(),
        processor: value("cpu ").unwrap_or_default(),
        processors: value("processors ").and_then(|count| count.parse().ok()).filter(|count| *count > 0),
        kernel: value("kernel ").unwrap_or_default(),
    });
    let missing = |names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|name| !there.has(name)).collect()
    };
    let needed = missing(&tools::NEEDED_THERE);
    if !needed.is_empty() {
        return Err(Error::Nothing(format!(
            "{} has no {} on the login's PATH ({}), and nothing can be measured without",
            login.typed,
            needed.join(", "),
            value("path ").unwrap_or_default()
        )));
    }
    let eyes = missing(&["awk", "cat"]);
    if !eyes.is_empty() {
        let why = format!("it would be told by {}, which the host has not", eyes.join(" and "));
        site.left_out.push(out("CPU there, of all rows", why));
    } else if far.server().is_none() {
        site.left_out
            .push(out("CPU there, of all rows", "the processes of its sshd cannot be seen".to_owned()));
    }
    let far_memory = match far.scratch(IN_MEMORY)? {
        Ok(found) => found,
        Err(why) => {
            site.left_out
                .push(out("memory over there", format!("{why}: files that the cache holds stand in for it")));
            far.scratch("/tmp")?
                .map_err(|why| Error::Nothing(format!("nothing can be written over there: {why}")))?
        }
    };
    let far_disk = far_disk(&mut far, settings)?;
    let connection: Vec<String> =
        value("connection ").unwrap_or_default().split(' ').map(str::to_owned).collect();
    site.address = connection.get(2).and_then(|address| address.parse().ok());
    site.ground.tools.there = Some(there);
    let began = Instant::now();
    site.ground.tools.ssh_ciphers = ssh_ciphers(&ssh, &login.host);
    site.login_seconds = began.elapsed().as_secs_f64();
    site.port = free_port(&mut far, settings.port)?;
    site.ground.no_port = no_port(site, &ssh, &login.host, &mut far);
    site.near_port = near_port(settings.port, site.port, connection.first());
    site.ground.no_near_port = no_near_port(site, &ssh, &login.host);
    site.back = way_back(site, settings, connection.first(), &mut far, stop)?;
    let on_its_path = value("hakobu ").filter(|path| !path.is_empty());
    if let Some(path) = settings.far_program.clone().or(on_its_path) {
        match far.program(&path, &format!("{}/hakobu", far_memory.0))? {
            Some(plain) => (site.far_program, site.far_program_typed) = (plain, Some(path)),
            None if settings.far_program.is_some() => {
                let words = format!("{path}, which --agent names, is no program on {}", login.typed);
                return Err(Error::Nothing(words));
            }
            None => {}
        }
    }
    site.memory.reach(far_memory);
    site.far = Some(far);
    site.ssh = Some(ssh);
    Ok(far_disk)
}

/// What tells a machine from others.
const FACTS: &str = "\
printf 'network %s\\n' \"$(readlink /proc/self/ns/net 2>/dev/null)\"
one() { line=; { IFS= read -r line <\"$1\"; } 2>/dev/null; printf %s \"$line\"; }
printf 'boot %s\\n' \"$(one /proc/sys/kernel/random/boot_id)\"
count=0; model=
while IFS= read -r line; do case $line in
  processor*) count=$((count + 1));;
  'model name'*) model=${model:-${line#*: }};;
esac; done 2>/dev/null </proc/cpuinfo
printf 'cpu %s\\nprocessors %s\\n' \"$model\" \"$count\"
printf 'kernel %s %s\\n' \"$(one /proc/sys/kernel/ostype)\" \"$(one /proc/sys/kernel/osrelease)\"
printf 'path %s\\n' \"$PATH\"
printf 'connection %s\\n' \"$SSH_CONNECTION\"
printf 'hakobu %s\\n' \"$(command -v hakobu 2>/dev/null)\"";

fn facts_here() -> MachineFacts {
    let output = Command::new("sh").args(["-c", FACTS]).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned()
    };
    MachineFacts {
        whose: "here".to_owned(),
        processor: value("cpu "),
        processors: value("processors ").parse().ok().filter(|count| *count > 0),
        kernel: value("kernel "),
    }
}

/// This program by a plain path: by a link, where its own is not.
fn near_program(program: &Path, directory: &NearDirectory) -> Result<String> {
    if let Some(path) = program.to_str().filter(|path| is_plain(path)) {
        return Ok(path.to_owned());
    }
    let link = format!("{}/hakobu", directory.path());
    std::os::unix::fs::symlink(program, &link).map_err(Error::io(format!("making {link}")))?;
    Ok(link)
}

/// Writes what hakobu's rows read for settings, and gives its path, or what stands for none.
fn settings_of_hakobu(text: &str, directory: &NearDirectory) -> Result<String> {
    use std::os::unix::fs::PermissionsExt;
    if text.is_empty() {
        return Ok("none".to_owned());
    }
    let path = format!("{}/settings", directory.path());
    // What others may write is not read.
    std::fs::write(&path, text)
        .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)))
        .map_err(Error::io(format!("writing {path}")))?;
    Ok(path)
}

/// Puts the wrapper beside the data in memory, or where something can be run from if that is nowhere to do so.
fn place_wrapper(site: &mut Site, words: &[String]) -> Result<PathBuf> {
    let in_memory = Path::new(site.memory.near.path()).join("ssh");
    write_wrapper(&in_memory, words)?;
    let runs = Command::new(&in_memory).arg("-V").stdin(Stdio::null()).stderr(Stdio::null()).status();
    if runs.is_ok() {
        return Ok(in_memory);
    }
    let elsewhere = NearDirectory::make(Path::new(FOR_LINKS), &site.keeper);
    let elsewhere = elsewhere.map_err(Error::io("making a directory in /tmp"))?;
    let ssh = Path::new(elsewhere.path()).join("ssh");
    write_wrapper(&ssh, words)?;
    site._beside = Some(elsewhere);
    Ok(ssh)
}

/// A script of the user's ssh with its options, for tools that take a program's name alone.
fn write_wrapper(path: &Path, words: &[String]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" "));
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)))
        .map_err(Error::io(format!("writing {}", path.display())))
}

fn far_disk(far: &mut FarShell, settings: &Settings) -> Result<FarDisk> {
    let below = settings.far_scratch.as_deref().unwrap_or(ON_DISK);
    let in_memory = far.ask(&format!("stat -f -c 'kind %T' -- {} 2>/dev/null", quoted(below)))?;
    if in_memory.iter().any(|line| line == "kind tmpfs" || line == "kind ramfs") {
        return Ok(Err(format!(
            "{below} on the host is in memory; --far-scratch names a directory on a disk"
        )));
    }
    match far.scratch(below)? {
        Ok(found) => Ok(Ok(Some(found))),
        Err(why) if settings.far_scratch.is_some() => Err(Error::Nothing(format!(
            "no scratch directory can be made in {below} on the host ({why}); name another place with --far-scratch"
        ))),
        Err(why) => Ok(Err(format!("on the host: {why}; --far-scratch names another place"))),
    }
}

/// What both ends take, by one login that tells what the server proposes.
fn ssh_ciphers(ssh: &Path, host: &str) -> Vec<String> {
    let run = |arguments: &[&str]| Command::new(ssh).args(arguments).stdin(Stdio::null()).output();
    let Ok(offered) = run(&["-Q", "cipher"]) else { return Vec::new() };
    let offered = tools::offered_ciphers(&String::from_utf8_lossy(&offered.stdout));
    match run(&["-vv", "--", host, "true"]) {
        Ok(output) => tools::accepted_ciphers(&offered, &String::from_utf8_lossy(&output.stderr)),
        Err(_) => offered,
    }
}

/// How the host logs in here, tried; sets why not.
fn way_back(
    site: &mut Site,
    settings: &Settings,
    seen_as: Option<&String>,
    far: &mut FarShell,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Back>> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    let own = seen_as.filter(|address| !address.is_empty() && !address.contains(':'));
    let own = own.map(|address| match user.is_empty() {
        true => address.clone(),
        false => format!("{user}@{address}"),
    });
    let back = settings.back.clone().or(own.map(|host| Back { host, port: None }));
    let Some(back) = back.filter(|back| is_plain(&back.host)) else {
        site.ground.no_way_back =
            Some("it is not known how the host reaches this machine; --back names it".to_owned());
        return Ok(None);
    };
    let port = back.port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let script = format!(
        "ssh -o BatchMode=yes -o ConnectTimeout={BACK_CONNECT_S} {port}{} true </dev/null 2>&1 && echo in",
        back.host
    );
    let answer = far.ask_for(&script, BACK_LIMIT, stop)?;
    if answer.iter().any(|line| line == "in") {
        return Ok(Some(back));
    }
    let words =
        answer.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or("no answer");
    let why = format!(
        "the host cannot log in here as {} without a question ({words}); --back names another way",
        back.host
    );
    site.ground.no_way_back = Some(why);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login {
            typed: "me@h".to_owned(),
            user: Some("me".to_owned()),
            host: "h".to_owned(),
            port: Some(2222),
            ssh: ["ssh", "-F", "/my conf"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn runs_ask_nothing_and_share_no_login() {
        let words = ssh_words(&login()).join(" ");
        assert!(
            words.starts_with("ssh -F /my conf -o BatchMode=yes -o ControlMaster=no -o ControlPath=none"),
            "{words}"
        );
        assert!(words.ends_with(" -T -l me -p 2222"), "{words}");
        let words = ssh_of_hakobu(&login());
        assert_eq!(words, "ssh -F '/my conf' -o 'BatchMode=yes' -o 'ControlMaster=no' -o 'ControlPath=none'");
    }

    #[test]
    fn hosts_are_spelt_as_each_tool_takes_them() {
        assert_eq!(hakobu_host(&login()), "ssh://me@h:2222");
        let six = Login { user: None, port: None, host: "fd00::1".to_owned(), ..login() };
        assert_eq!((hakobu_host(&six).as_str(), copy_host(&six.host).as_str()), ("[fd00::1]:", "[fd00::1]"));
    }

    #[test]
    fn a_program_of_an_odd_path_is_started_by_a_link() {
        let keeper = Keeper::start().unwrap();
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

    #[test]
    fn the_wrapper_gives_every_word_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("ssh");
        write_wrapper(&path, &["printf".to_owned(), "%s.".to_owned(), "it's a $word".to_owned()]).unwrap();
        let output = Command::new("sh").arg("-c").arg(format!("{} more", path.display())).output().unwrap();
        assert_eq!(output.stdout, b"it's a $word.more.");
        assert!(facts_here().processors.is_some());
    }
}
