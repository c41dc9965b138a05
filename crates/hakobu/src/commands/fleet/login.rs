//! `fleet login`.

use std::io::{IsTerminal, Read};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_endpoints::local::own_user_name;
use hakobu_fleet::api::fleet_view::{TokenInput, TokenSecret};
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::secret_bytes::SecretBytes;
use hakobu_fleet::token::TokenRole;
use serde_json::Value;

use super::arguments::{FleetConnection, LoginToFleet};
use super::connection::{FleetLogin, read_file, token_in};
use crate::{messages, output};

/// The time for which the token of a login is valid in seconds: 90 days.
const VALID_FOR_S: u64 = 90 * 86_400;
/// The maximum length of a token on standard input in bytes.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Keeps an address and a token. A token with the role admin is exchanged for one of this login, so that one that is valid once
/// can be used as well, and that it has the name of whoever signs in.
pub(super) fn login(typed: &LoginToFleet, connection: &FleetConnection) -> Result<()> {
    if typed.name.as_deref().is_some_and(|name| name.trim().is_empty()) {
        let error = Error::new(ErrorKind::Usage, "keeping the login", "the name is empty");
        return Err(error.hint("name a person or a group with --as NAME, or leave it out"));
    }
    let token = match &connection.token_file {
        Some(file) => token_in(&read_file(file)?),
        None => typed_token()?,
    };
    if token.expose().is_empty() {
        let error = Error::new(ErrorKind::Usage, "reading the token", "it is empty");
        return Err(
            error.hint("hakobu serve shows one when it starts; paste it, or name a file with --token-file")
        );
    }
    let authorities = connection.tls_ca.as_deref().map(read_file).transpose()?;
    let text = String::from_utf8_lossy(token.expose()).into_owned();
    let client = FleetClient::new(&typed.url, token, authorities.as_deref())?;
    let label = typed.name.clone().unwrap_or_else(own_name);
    let input =
        TokenInput { label, role: TokenRole::Admin, valid_for_s: Some(VALID_FOR_S), is_single_use: false };
    let token = match client.send::<TokenSecret>("POST", "/api/v1/tokens", &input) {
        Ok(made) => made.secret,
        Err(error) if error.kind == ErrorKind::PermissionDenied => text,
        Err(error) => return Err(error),
    };
    let tls_ca = connection.tls_ca.as_deref().map(std::path::absolute).transpose();
    let tls_ca = tls_ca.map_err(|error| Error::io("reading the file", &error))?;
    let login = FleetLogin { server: client.server().to_owned(), token: token.clone(), tls_ca };
    let client =
        FleetClient::new(&login.server, SecretBytes::new(token.into_bytes()), authorities.as_deref())?;
    let session: Value = client.get("/api/v1/session")?;
    let path = login.save()?;
    let role = session["role"].as_str().unwrap_or_default();
    let words = format!("signed in with the role {role}; the token is in {}", path.display());
    output::tell_translated(&messages::note(&words));
    Ok(())
}

fn typed_token() -> Result<SecretBytes> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::tell_translated(&messages::note("paste the token, then press Enter and Ctrl-D"));
    }
    let mut bytes = Vec::new();
    let read = stdin.lock().take(TOKEN_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| Error::io("reading the token", &error))?;
    Ok(token_in(&bytes))
}

/// Returns the name of the user at this machine.
fn own_name() -> String {
    let named = ["SUDO_USER", "LOGNAME", "USER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let user = named.into_iter().find(|name| !name.is_empty());
    // Services and containers often have none of these variables.
    let known = || own_user_name().map(|name| String::from_utf8_lossy(&name).into_owned());
    let user = user.or_else(known).unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}
