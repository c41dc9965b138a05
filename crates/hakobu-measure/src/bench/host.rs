//! Explores the host: the login, and what is found there before anything runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{BenchError, BenchResult};
use super::facts::FACTS;
use super::local_processes;
use super::login::{BenchLogin, ReverseLogin, ssh_words};
use super::ports::{free_port, near_port, no_near_port, no_port};
use super::remote_processes::FarShell;
use super::result::MachineFacts;
use super::scratch::{IN_MEMORY, ON_DISK};
use super::settings::{BenchMachines, Settings, out};
use super::shell::{is_plain, quoted};
use super::tools;
use super::wrapper::place_wrapper;

/// The time limit for a login from the host to this machine.
const BACK_LIMIT: Duration = Duration::from_secs(15);
const BACK_CONNECT_S: u32 = 5;

pub(super) type FarDisk = std::result::Result<Option<(String, u64)>, String>;

/// Logs in, and finds out what the host is and has. Returns its directory on a disk, or the reason why there is none.
pub(super) fn look_at_host(
    site: &mut BenchMachines,
    settings: &Settings,
    login: &BenchLogin,
    stop: &dyn Fn() -> bool,
) -> BenchResult<FarDisk> {
    let is_ssh = |word: &String| word.rsplit('/').next() == Some("ssh");
    if !login.ssh.iter().any(is_ssh) {
        return Err(BenchError::Nothing(
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
    site.same_machine = value("boot ").is_some_and(|boot| Some(boot) == local_processes::boot());
    site.same_network = site.same_machine && value("network ") == local_processes::network();
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
        return Err(BenchError::Nothing(format!(
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
                .map_err(|why| BenchError::Nothing(format!("nothing can be written over there: {why}")))?
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
                return Err(BenchError::Nothing(words));
            }
            None => {}
        }
    }
    site.memory.reach(far_memory);
    site.far = Some(far);
    site.ssh = Some(ssh);
    Ok(far_disk)
}

fn far_disk(far: &mut FarShell, settings: &Settings) -> BenchResult<FarDisk> {
    let below = settings.far_scratch.as_deref().unwrap_or(ON_DISK);
    let in_memory = far.ask(&format!("stat -f -c 'kind %T' -- {} 2>/dev/null", quoted(below)))?;
    if in_memory.iter().any(|line| line == "kind tmpfs" || line == "kind ramfs") {
        return Ok(Err(format!(
            "{below} on the host is in memory; --far-scratch names a directory on a disk"
        )));
    }
    match far.scratch(below)? {
        Ok(found) => Ok(Ok(Some(found))),
        Err(why) if settings.far_scratch.is_some() => Err(BenchError::Nothing(format!(
            "no scratch directory can be made in {below} on the host ({why}); name another place with --far-scratch"
        ))),
        Err(why) => Ok(Err(format!("on the host: {why}; --far-scratch names another place"))),
    }
}

/// Returns the ciphers that both ends support. One login shows the server's proposal.
fn ssh_ciphers(ssh: &Path, host: &str) -> Vec<String> {
    let run = |arguments: &[&str]| Command::new(ssh).args(arguments).stdin(Stdio::null()).output();
    let Ok(offered) = run(&["-Q", "cipher"]) else { return Vec::new() };
    let offered = tools::offered_ciphers(&String::from_utf8_lossy(&offered.stdout));
    match run(&["-vv", "--", host, "true"]) {
        Ok(output) => tools::accepted_ciphers(&offered, &String::from_utf8_lossy(&output.stderr)),
        Err(_) => offered,
    }
}

/// Finds out how the host logs in to this machine, by trying it. Records the reason if it cannot.
fn way_back(
    site: &mut BenchMachines,
    settings: &Settings,
    seen_as: Option<&String>,
    far: &mut FarShell,
    stop: &dyn Fn() -> bool,
) -> BenchResult<Option<ReverseLogin>> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    let own = seen_as.filter(|address| !address.is_empty() && !address.contains(':'));
    let own = own.map(|address| match user.is_empty() {
        true => address.clone(),
        false => format!("{user}@{address}"),
    });
    let back = settings.back.clone().or(own.map(|host| ReverseLogin { host, port: None }));
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
