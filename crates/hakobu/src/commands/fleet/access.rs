//! `fleet tokens` and `fleet audit`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::units::parse_duration;
use hakobu_fleet::api::fleet_view::{AuditView, TokenInput, TokenSecret, TokenView};
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::token::TokenRole;

use super::printing::{NOTHING, json_lines, json_object, table, text, time};
use crate::{messages, output};

/// The text below the help.
pub(crate) const TOKENS_HELP: &str = "\
Roles: viewer sees everything but secrets, operator starts, stops and limits runs, admin changes everything.

Examples:
  hakobu fleet tokens add monitoring --role viewer
  hakobu fleet tokens add visitor --role operator --valid-for 8h --once";

/// The actions on tokens.
#[derive(Debug, Subcommand)]
pub enum TokensVerb {
    /// List tokens, without their secrets
    List,
    /// Make a token and print it; it is not shown again
    #[command(after_help = TOKENS_HELP)]
    Add {
        /// Name that says what it is for
        label: String,
        /// Role: viewer, operator, admin
        #[arg(long, value_name = "ROLE", hide_possible_values = true,
            value_parser = PossibleValuesParser::new(["viewer", "operator", "admin"]))]
        role: String,
        /// Time for which it is valid, such as 90d; without it, there is no end
        #[arg(long, value_name = "DURATION")]
        valid_for: Option<String>,
        /// Valid once
        #[arg(long)]
        once: bool,
    },
    /// Revoke a token; its sessions end
    Revoke {
        /// Number of the token
        id: u64,
    },
}

/// The arguments of `fleet audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Number of records, the latest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub count: usize,
}

/// Carries out an action on tokens; returns what is to be printed.
pub(super) fn tokens(client: &FleetClient, verb: &TokensVerb, json: bool) -> Result<String> {
    match verb {
        TokensVerb::List => {
            let page: ListPage<TokenView> = client.get("/api/v1/tokens")?;
            if json {
                return json_lines(&page.items);
            }
            let rows = page.items.iter().map(|token| {
                [
                    token.id.to_string(),
                    token.label.clone(),
                    token.role.name().to_owned(),
                    time(Some(token.created_ms)),
                    time(token.expires_ms),
                    time(token.last_used_ms),
                    if token.is_single_use { "once" } else { NOTHING }.to_owned(),
                ]
            });
            Ok(table(["ID", "LABEL", "ROLE", "CREATED", "EXPIRES", "LAST USED", "USE"], rows))
        }
        TokensVerb::Add { label, role, valid_for, once } => {
            let valid_for = valid_for.as_deref().map(parse_duration).transpose();
            let valid_for = valid_for
                .map_err(|error| Error::new(ErrorKind::Usage, "reading the time", error.to_string()))?;
            let input = TokenInput {
                label: label.clone(),
                role: TokenRole::from_name(role).unwrap_or(TokenRole::Viewer),
                valid_for_s: valid_for.map(|time| time.as_secs()),
                is_single_use: *once,
            };
            let made: TokenSecret = client.send("POST", "/api/v1/tokens", &input)?;
            if json {
                return json_object(&made);
            }
            output::tell_translated(&messages::note("the token is not shown again"));
            Ok(format!("{}\n", made.secret))
        }
        TokensVerb::Revoke { id } => {
            let path = format!("/api/v1/tokens/{id}");
            client.order("DELETE", &path, None::<&()>).map(|()| String::new())
        }
    }
}

/// Lists records of the audit log; returns what is to be printed.
pub(super) fn audit(client: &FleetClient, typed: &AuditArguments, json: bool) -> Result<String> {
    let records: Vec<AuditView> = client.list("/api/v1/audit", &[], typed.count)?;
    if json {
        return json_lines(&records);
    }
    let rows = records.iter().map(|record| {
        [
            time(Some(record.at_ms)),
            record.who.clone(),
            record.action.clone(),
            text(&record.object),
            record.detail.clone(),
            record.refused.clone().unwrap_or_else(|| "done".to_owned()),
        ]
    });
    Ok(table(["TIME", "WHO", "ACTION", "OBJECT", "DETAIL", "OUTCOME"], rows))
}
