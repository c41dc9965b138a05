//! `fleet tokens` and `fleet audit`.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::units::parse_duration;
use hakobu_fleet::api::fleet_view::{AuditView, TokenInput, TokenSecret, TokenView};
use hakobu_fleet::api::listing::ListPage;
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::token::TokenRole;

use super::arguments::{AuditArguments, TokensVerb};
use super::printing::{NOTHING, json_lines, json_object, table, text, time};
use crate::{messages, output};

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
