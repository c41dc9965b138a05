//! The verb `fleet`: asks a control plane, and has it change things.

mod access;
pub mod arguments;
mod brokers;
mod connection;
mod credentials;
mod groups;
mod limits;
mod login;
mod printing;
pub mod question_arguments;
mod questions;
mod relationships;
mod request;
mod run_verbs;
mod status;
mod watching;

use hakobu_core::error::Result;

use self::arguments::{BrokersVerb, FleetArguments, FleetVerb, RelationshipsVerb, RunVerbs};
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
        FleetVerb::Status => return status::status(&client()?, json),
        FleetVerb::Run { verb: RunVerbs::Watch { id } } => return watching::watch(&client()?, *id, json),
        FleetVerb::Run { verb: RunVerbs::Start(start) } => return watching::start(&client()?, start, json),
        FleetVerb::Ls(typed) => return questions::browse(&client()?, typed, json),
        FleetVerb::Test(typed) => return questions::test(&client()?, typed, json),
        FleetVerb::Preview(typed) => return questions::preview(&client()?, typed, json),
        FleetVerb::Probe(typed) => return questions::probe(&client()?, typed, json),
        FleetVerb::Run { verb } => run_verbs::run(&client()?, verb, json)?,
        FleetVerb::Relationships { verb } => relationships::relationships(&client()?, verb, json)?,
        FleetVerb::Brokers { verb } => brokers::brokers(&client()?, verb, json)?,
        FleetVerb::Groups { verb } => groups::groups(&client()?, verb, json)?,
        FleetVerb::Limits { verb } => limits::limits(&client()?, verb, json)?,
        FleetVerb::Tokens { verb } => access::tokens(&client()?, verb, json)?,
        FleetVerb::Audit(audit) => access::audit(&client()?, audit, json)?,
    };
    if shows_states(&typed.verb) {
        status::warn(&client()?);
    }
    Ok(output::print(text.as_bytes()))
}

/// Returns true for a command that shows states, which are those of before if the control plane does not work.
fn shows_states(verb: &FleetVerb) -> bool {
    match verb {
        FleetVerb::Relationships { verb } => {
            matches!(**verb, RelationshipsVerb::List(_) | RelationshipsVerb::Show { .. })
        }
        FleetVerb::Run { verb } => matches!(verb, RunVerbs::List { .. } | RunVerbs::Show { .. }),
        FleetVerb::Brokers { verb } => matches!(verb, BrokersVerb::List { .. }),
        _ => false,
    }
}
