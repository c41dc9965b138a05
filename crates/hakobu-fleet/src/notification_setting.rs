//! The notification of a relationship: which events are told, and to whom.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::notification::{NOTIFICATION_VERSION, NotificationKind, mail, webhook};
use crate::relationship::CredentialReference;
use crate::setting_error::SettingError;

/// The maximum number of webhooks, and of recipients of mail, of a relationship.
pub const RECIPIENTS_MAX: usize = 16;
/// A kind that earlier versions had: nothing tells when credentials expire.
const FORMER_KIND: &str = "credentials_expiring";

/// The notification of a relationship, as written and kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationSetting {
    /// The version of the form, which is 1.
    pub version: u8,
    /// The kinds that are told.
    #[serde(default = "problems")]
    pub kinds: Vec<NotificationKind>,
    /// The webhooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<WebhookSetting>,
    /// The addresses that get mail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mail_to: Vec<String>,
}

fn problems() -> Vec<NotificationKind> {
    NotificationKind::PROBLEMS.to_vec()
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSetting {
    /// The URL: https, or http to this machine.
    pub url: String,
    /// The place of the secret that signs. Without one, the receiver cannot know who has sent a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<CredentialReference>,
}

impl NotificationSetting {
    /// Reads and checks a setting.
    ///
    /// # Errors
    /// The field at fault.
    pub fn parse(json: &str) -> Result<Self, SettingError> {
        let setting: Self = serde_json::from_str(json).map_err(|error| SettingError::json(&error))?;
        setting.check()?;
        Ok(setting)
    }

    /// Reads a setting that was checked when it was saved. A kind that earlier versions had, and of which they never told, is left
    /// out.
    ///
    /// # Errors
    /// Those of the form, which another version may have written.
    pub fn saved(json: &str) -> Result<Self, SettingError> {
        let mut value: serde_json::Value =
            serde_json::from_str(json).map_err(|error| SettingError::json(&error))?;
        if let Some(kinds) = value.get_mut("kinds").and_then(|kinds| kinds.as_array_mut()) {
            kinds.retain(|kind| kind != FORMER_KIND);
        }
        serde_json::from_value(value).map_err(|error| SettingError::json(&error))
    }

    /// Reads a setting that was saved; none if this version does not understand it.
    pub fn understood(json: &str) -> Option<Self> {
        Self::saved(json).ok().filter(|setting| setting.check().is_ok())
    }

    /// Checks a setting.
    ///
    /// # Errors
    /// The field at fault.
    pub fn check(&self) -> Result<(), SettingError> {
        if self.version != NOTIFICATION_VERSION {
            let words = format!("{} is of a later version of the program; this one knows 1", self.version);
            return Err(SettingError::new("version", words));
        }
        for (field, count) in [("webhooks", self.webhooks.len()), ("mail_to", self.mail_to.len())] {
            if count > RECIPIENTS_MAX {
                let words = format!("there are {count}, at most {RECIPIENTS_MAX} are possible");
                return Err(SettingError::new(field, words));
            }
        }
        for (index, webhook) in self.webhooks.iter().enumerate() {
            webhook::check_url(&webhook.url)
                .map_err(|words| SettingError::new(format!("webhooks[{index}].url"), words))?;
        }
        for (index, address) in self.mail_to.iter().enumerate() {
            mail::check_address(address)
                .map_err(|words| SettingError::new(format!("mail_to[{index}]"), words))?;
        }
        Ok(())
    }

    /// Takes sealed secrets out, so that nobody is shown them.
    pub fn hide_sealed(&mut self) {
        for webhook in &mut self.webhooks {
            if let Some(CredentialReference::Sealed(text)) = &mut webhook.secret {
                text.clear();
            }
        }
    }

    /// Puts sealed secrets back that were taken out: those of the webhooks with the same URL.
    ///
    /// # Errors
    /// The field of a webhook that had none.
    pub fn keep_sealed(&mut self, before: Option<&Self>) -> Result<(), SettingError> {
        for (index, webhook) in self.webhooks.iter_mut().enumerate() {
            let Some(CredentialReference::Sealed(text)) = &mut webhook.secret else { continue };
            if !text.is_empty() {
                continue;
            }
            let known = before.into_iter().flat_map(|before| &before.webhooks);
            let known =
                known.filter(|known| known.url == webhook.url).find_map(|known| match &known.secret {
                    Some(CredentialReference::Sealed(text)) => Some(text),
                    _ => None,
                });
            let Some(known) = known else {
                let field = format!("webhooks[{index}].secret");
                return Err(SettingError::new(field, "there is no sealed secret to keep for this URL"));
            };
            text.clone_from(known);
        }
        Ok(())
    }

    /// Adds the recipients of another setting that this one does not have.
    pub fn add_recipients(&mut self, other: Self) {
        for webhook in other.webhooks {
            if !self.webhooks.contains(&webhook) {
                self.webhooks.push(webhook);
            }
        }
        for address in other.mail_to {
            if !self.mail_to.contains(&address) {
                self.mail_to.push(address);
            }
        }
    }

    /// Returns true if a kind is told.
    pub fn tells(&self, kind: NotificationKind) -> bool {
        self.kinds.contains(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_and_an_error_names_the_field() {
        let json = r#"{"version":1,"kinds":["run_failed"],"webhooks":[{"url":"https://example.org/hook","secret":{"environment":"HOOK"}}],"mail_to":["a@example.org"]}"#;
        let setting = NotificationSetting::parse(json).unwrap();
        assert_eq!(serde_json::to_string(&setting).unwrap(), json);
        assert!(setting.tells(NotificationKind::RunFailed) && !setting.tells(NotificationKind::RunPartial));
        let shortest = NotificationSetting::parse(r#"{"version":1}"#).unwrap();
        assert_eq!(shortest.kinds, NotificationKind::PROBLEMS);
        for (fields, field, words) in [
            (r#""webhooks":[{"url":"http://example.org/"}]"#, "webhooks[0].url", "https"),
            (r#""mail_to":["a@b.org","nobody"]"#, "mail_to[1]", "no address"),
            (r#""kinds":["run_paused"]"#, "", "unknown variant"),
            (r#""kinds":["credentials_expiring"]"#, "", "unknown variant"),
            (r#""slack":"x""#, "", "unknown field"),
        ] {
            let error = NotificationSetting::parse(&format!(r#"{{"version":1,{fields}}}"#)).unwrap_err();
            assert!(error.field == field && error.words.contains(words), "{fields}: {error}");
        }
        let many = |count| {
            let list = vec![r#""a@b.org""#; count].join(",");
            NotificationSetting::parse(&format!(r#"{{"version":1,"mail_to":[{list}]}}"#))
        };
        assert!(many(RECIPIENTS_MAX).is_ok() && many(RECIPIENTS_MAX + 1).is_err());
    }

    #[test]
    fn a_saved_kind_that_is_not_told_any_more_is_left_out() {
        let json = r#"{"version":1,"kinds":["run_partial","credentials_expiring"],"mail_to":["a@b.org"]}"#;
        let setting = NotificationSetting::understood(json).unwrap();
        assert_eq!(setting.kinds, [NotificationKind::RunPartial]);
        assert_eq!(setting.mail_to, ["a@b.org"]);
        assert!(NotificationSetting::understood(&json.replace(":1,", ":2,")).is_none());
        assert!(NotificationSetting::saved(&json.replace("run_partial", "run_paused")).is_err());
    }

    #[test]
    fn sealed_secrets_are_hidden_and_kept() {
        let parse = |text: &str, url: &str| {
            let webhook = format!(r#"{{"url":"https://{url}/","secret":{{"sealed":"{text}"}}}}"#);
            NotificationSetting::parse(&format!(r#"{{"version":1,"webhooks":[{webhook}]}}"#)).unwrap()
        };
        let saved = parse("hks1.x.y", "a.org");
        let mut shown = saved.clone();
        shown.hide_sealed();
        assert_eq!(shown, parse("", "a.org"));
        shown.keep_sealed(Some(&saved)).unwrap();
        assert_eq!(shown, saved);
        // A secret is not sent elsewhere.
        assert_eq!(parse("", "b.org").keep_sealed(Some(&saved)).unwrap_err().field, "webhooks[0].secret");
        assert!(parse("", "a.org").keep_sealed(None).is_err());
    }

    #[test]
    fn recipients_are_added_once() {
        let parse =
            |mail: &str| NotificationSetting::parse(&format!(r#"{{"version":1,"mail_to":{mail}}}"#)).unwrap();
        let mut all = parse(r#"["a@b.org"]"#);
        all.add_recipients(parse(r#"["c@d.org","a@b.org"]"#));
        assert_eq!(all.mail_to, ["a@b.org", "c@d.org"]);
    }
}
