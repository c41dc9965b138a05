//! Advice on the number of logins that an ssh server allows. On a long network path without open ports hakobu makes
//! several.

use hakobu_core::host::HostFacts;
use hakobu_core::units::format_bytes;

use super::finding::{Finding, FindingHost, Severity};
use super::path_ends::PathEnds;

/// The number of connections that may be logging in at the same time: the first login and two more.
const LOGINS_AT_ONCE: u32 = 3;
/// The number of sessions per login.
const SESSIONS_OF_A_LOGIN: u32 = 2;
/// sshd's default for the penalty in seconds from which it locks out an address.
const PENALTY_FROM_SECONDS: u32 = 15;
/// The amount of data per set of keys, in bytes, below which a login spends much of its time waiting for new keys. At
/// a round-trip time of 20 ms `hakobu copy --transport ssh` reached 27 MB/s with 1 MiB, 51 with 16 MiB, 69 with 64
/// MiB and 74 without a limit.
const REKEY_BYTES: u64 = 32 << 20;
/// The condition of all these findings: data goes through ssh.
const WHERE_IT_COUNTS: &str = "where no data port is open, data goes through ssh";

pub(super) fn judge(ends: &PathEnds<'_>, whose: FindingHost, facts: &HostFacts, findings: &mut Vec<Finding>) {
    // Between two machines only the server of the other machine matters.
    if ends.there.is_some() && whose == FindingHost::Here {
        return;
    }
    let Some(server) = &facts.login_server else { return };
    let mut add = |id, of_match: bool, fact: String, why: String, line: &str| {
        let place = match of_match {
            true => "into the Match of the ssh server's configuration that sets it now",
            false => "first into /etc/ssh/sshd_config",
        };
        let command = format!("put `{line}` {place}, then systemctl reload sshd");
        let severity = Severity::Costs;
        findings.push(Finding { id, whose, severity, fact, why, command, expected: None });
    };
    let (sessions_of_match, rekey_of_match) = server.of_match;
    if let Some((begin, percent, full)) = server.max_startups.filter(|(begin, ..)| *begin < LOGINS_AT_ONCE) {
        let fact = format!("sshd has MaxStartups {begin}:{percent}:{full}");
        let why = format!(
            "{WHERE_IT_COUNTS}, by up to {LOGINS_AT_ONCE} logins at a time, of which it refuses {percent} % from {begin} on"
        );
        add("sshd-max-startups", false, fact, why, "MaxStartups 10:30:100");
    }
    if let Some(most) = server.max_startups_of_one.filter(|most| *most < LOGINS_AT_ONCE) {
        let fact = format!("sshd has PerSourceMaxStartups {most}");
        let why = format!("{WHERE_IT_COUNTS}, by up to {LOGINS_AT_ONCE} logins at a time");
        add("sshd-max-startups-of-one", false, fact, why, "PerSourceMaxStartups 10");
    }
    if let Some(most) = server.max_sessions.filter(|most| *most < SESSIONS_OF_A_LOGIN) {
        let fact = format!("sshd has MaxSessions {most}");
        let why = format!(
            "{WHERE_IT_COUNTS}: each lane then takes a login of its own, some 18 round trips, instead of 2"
        );
        add("sshd-max-sessions", sessions_of_match, fact, why, "MaxSessions 10");
    }
    if let Some(bytes) = server.rekey_bytes.filter(|bytes| *bytes < REKEY_BYTES) {
        let fact = format!("sshd has RekeyLimit {bytes}");
        let why = format!(
            "{WHERE_IT_COUNTS}, and a login waits two round trips for new keys after each {}",
            format_bytes(bytes)
        );
        add("sshd-rekey-limit", rekey_of_match, fact, why, "RekeyLimit default");
    }
    if let Some(penalties) = server.penalties {
        let from = penalties.from_seconds.unwrap_or(PENALTY_FROM_SECONDS);
        let worst = penalties.refused_seconds.max(penalties.silent_seconds).unwrap_or(0);
        if worst > 0 && worst >= from {
            let fact = format!("sshd shuts an address out for {worst} s after one login that fails");
            let why = "one wrong password, or one login that is broken off, ends a run and keeps the next from beginning"
                .to_owned();
            add("sshd-penalties", false, fact, why, "PerSourcePenalties authfail:5 noauth:1 min:15");
        }
    }
}
