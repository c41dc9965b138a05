//! Whether a job could log in again with nobody there.

use std::thread;

use hakobu_core::location::Location;

use crate::ssh::login;
use hakobu_core::request::CopyRequest;
use crate::ssh::{Login, login as ssh_login};

/// Finds out for each far machine of a request how a login would go with nobody to ask. It takes
/// as long as logging in does, and never longer than a bounded time.
pub fn logins(request: &CopyRequest) -> Vec<(String, Login)> {
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
                (host.destination(), scope.spawn(|| ssh_login(&login::Login::of(request, host).settings())))
            })
            .collect();
        let answers = asked.into_iter().map(|(host, asked)| (host, asked.join().unwrap_or(Login::Unknown)));
        answers.collect()
    })
}
