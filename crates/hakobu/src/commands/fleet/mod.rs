//! The verb `fleet`: asks a control plane, and has it change things.

mod access;
pub mod arguments;
mod brokers;
mod connection;
mod limits;
mod login;
mod printing;
mod relationships;
mod request;
mod run_verbs;
mod watching;

use hakobu_core::error::Result;

use self::arguments::{FleetArguments, FleetVerb, RunVerbs};
use crate::{exit, output};

/// Carries out an action; returns the exit code.
pub fn fleet(typed: &FleetArguments) -> u8 {
    match act(typed) {
        Ok(code) => code,
        Err(error) => exit::errors(&[error]),
    }
}

fn act(typed: &FleetArguments) -> Result<u8> {
    let json = typed.connection.json;
    let client = || typed.connection.client();
    let text = match &typed.verb {
        FleetVerb::Login(login) => return login::login(login, &typed.connection).map(|()| 0),
        FleetVerb::Run { verb: RunVerbs::Watch { id } } => return watching::watch(&client()?, *id, json),
        FleetVerb::Run { verb: RunVerbs::Start(start) } => return watching::start(&client()?, start, json),
        FleetVerb::Run { verb } => run_verbs::run(&client()?, verb, json)?,
        FleetVerb::Relationships { verb } => relationships::relationships(&client()?, verb, json)?,
        FleetVerb::Brokers { verb } => brokers::brokers(&client()?, verb, json)?,
        FleetVerb::Limits { verb } => limits::limits(&client()?, verb, json)?,
        FleetVerb::Tokens { verb } => access::tokens(&client()?, verb, json)?,
        FleetVerb::Audit(audit) => access::audit(&client()?, audit, json)?,
    };
    Ok(output::print(text.as_bytes()))
}
