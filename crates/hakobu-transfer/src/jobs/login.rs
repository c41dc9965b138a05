//! A check whether a job could log in again unattended.

use std::thread;

use hakobu_core::location::Location;

use hakobu_core::request::CopyRequest;
use hakobu_ssh::login;
use hakobu_ssh::{UnattendedLogin, login as ssh_login};

/// Checks for each remote host of a request whether a login would succeed unattended. It takes as long as a login does,
/// within a fixed limit.
pub fn logins(request: &CopyRequest) -> Vec<(String, UnattendedLogin)> {
    let mut hosts = Vec::new();
    for host in request.sources.iter().chain([&request.target]).filter_map(Location::ssh_host) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    thread::scope(|scope| {
        let asked: Vec<_> = hosts
            .into_iter()
            .map(|host| {
                (
                    host.destination(),
                    scope.spawn(|| ssh_login(&login::SshMethod::of(request, host).settings())),
                )
            })
            .collect();
        let answers =
            asked.into_iter().map(|(host, asked)| (host, asked.join().unwrap_or(UnattendedLogin::Unknown)));
        answers.collect()
    })
}
