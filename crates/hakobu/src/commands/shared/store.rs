//! Object stores: the options for reaching them and for what is written to them, and the settings that these stand for.

use clap::Args;
use clap::builder::PossibleValuesParser;
use hakobu_core::location::{Location, StoreName};
use hakobu_core::path::lossy;
use hakobu_core::store_credentials::StoreCredentials;
use hakobu_core::store_name::is_object_scheme;
use hakobu_core::store_settings::{
    BucketAddressing, ServerEncryption, StoreSettings, parse_content_type, parse_endpoint, parse_word,
};

use super::findings::{Findings, usage};
use super::headings::STORES;
use crate::settings_file::StoreOverrides;

/// The options for reaching object stores.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArguments {
    /// Server of the store, if it is not the vendor's: https://HOST, http://HOST:PORT
    ///
    /// Environment: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL
    #[arg(long, value_name = "URL", help_heading = STORES)]
    pub endpoint: Option<String>,

    /// Region of the bucket
    ///
    /// Environment: AWS_REGION
    #[arg(long, value_name = "NAME", help_heading = STORES)]
    pub region: Option<String>,

    /// Profile in ~/.aws/config: credentials, region, endpoint
    ///
    /// Environment: AWS_PROFILE
    #[arg(long, value_name = "NAME", help_heading = STORES)]
    pub profile: Option<String>,

    /// Send no credentials, as for public buckets
    #[arg(long, help_heading = STORES)]
    pub no_sign_request: bool,

    /// Agree to pay for requests and data where the bucket's owner does not
    #[arg(long, help_heading = STORES)]
    pub request_payer: bool,

    /// Where URLs have the bucket's name: auto, path, virtual
    ///
    /// `virtual` is in the name of the host. `auto` takes that for AWS, and the path for other servers
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true, help_heading = STORES,
        value_parser = PossibleValuesParser::new(["auto", "path", "virtual"]))]
    pub addressing: String,

    /// The options of single stores, if the settings files have different ones for source and target.
    #[arg(skip)]
    pub overrides: Vec<StoreOverrides>,
}

/// The options for objects that are written.
#[derive(Clone, Debug, Default, Args)]
pub struct ObjectArguments {
    /// Storage class of new objects, such as STANDARD_IA
    #[arg(long, value_name = "NAME", help_heading = STORES)]
    pub storage_class: Option<String>,

    /// Encryption of new objects: AES256, aws:kms, aws:kms:KEY
    #[arg(long, value_name = "HOW", help_heading = STORES)]
    pub sse: Option<String>,

    /// Canned access list of new objects, such as bucket-owner-full-control
    #[arg(long, value_name = "NAME", hide_possible_values = true, help_heading = STORES,
        value_parser = PossibleValuesParser::new(ACCESS_LISTS))]
    pub acl: Option<String>,

    /// Content type of new objects
    ///
    /// Default: by the extension of the name
    #[arg(long, value_name = "TYPE", help_heading = STORES)]
    pub content_type: Option<String>,
}

/// The access lists that S3 has names for.
const ACCESS_LISTS: [&str; 7] = [
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
];

impl StoreArguments {
    /// Returns the options that were given, by name.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--endpoint", self.endpoint.is_some()),
            ("--region", self.region.is_some()),
            ("--profile", self.profile.is_some()),
            ("--no-sign-request", self.no_sign_request),
            ("--request-payer", self.request_payer),
            (
                "--addressing",
                BucketAddressing::from_name(&self.addressing).unwrap_or_default() != BucketAddressing::Auto,
            ),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// Returns notes if options are given but none of the locations is in an object store.
    pub(crate) fn without_effect(&self, has_store: bool) -> Vec<String> {
        let why = "no location is in an object store";
        let given = if has_store { Vec::new() } else { self.given() };
        given.into_iter().map(|option| format!("{option} has no effect: {why}")).collect()
    }
}

impl ObjectArguments {
    /// Returns the options that were given, by name.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--storage-class", self.storage_class.is_some()),
            ("--sse", self.sse.is_some()),
            ("--acl", self.acl.is_some()),
            ("--content-type", self.content_type.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// Returns true if a location is in an object store.
pub(crate) fn is_in_object_store(location: &Location) -> bool {
    location.store().is_some_and(|store| is_object_scheme(&store.scheme))
}

/// Returns the name of a store in patterns of settings files: `s3://bucket`.
pub(crate) fn pattern_name(store: &StoreName) -> String {
    lossy(&store.location_of(b""))
}

impl Findings {
    /// Returns the settings of the store of a location.
    pub(crate) fn store(
        &mut self,
        reached: &StoreArguments,
        written: &ObjectArguments,
        location: Option<&Location>,
    ) -> StoreSettings {
        let name = location.and_then(Location::store).map(pattern_name);
        let own = reached.overrides.iter().find(|own| Some(&own.store) == name.as_ref());
        let of = |typed: &Option<String>, keyword: &str| {
            own.and_then(|own| own.value(keyword)).map(str::to_owned).or_else(|| typed.clone())
        };
        let is_set = |typed: bool, keyword: &str| {
            own.and_then(|own| own.value(keyword)).map_or(typed, |value| value == "yes")
        };
        let addressing = of(&Some(reached.addressing.clone()), "addressing").unwrap_or_default();
        let mut parsed =
            |typed: &Option<String>, keyword: &str, parse: fn(&str) -> Result<String, &'static str>| {
                let text = of(typed, keyword)?;
                self.keep(parse(&text).map_err(|words| usage(&format!("--{keyword}"), words)))
            };
        let settings = StoreSettings {
            endpoint: parsed(&reached.endpoint, "endpoint", parse_endpoint),
            region: parsed(&reached.region, "region", parse_word),
            profile: parsed(&reached.profile, "profile", parse_profile),
            no_sign_request: is_set(reached.no_sign_request, "no-sign-request"),
            request_payer: is_set(reached.request_payer, "request-payer"),
            addressing: BucketAddressing::from_name(&addressing).unwrap_or_default(),
            storage_class: parsed(&written.storage_class, "storage-class", parse_word),
            encryption: None,
            acl: of(&written.acl, "acl"),
            content_type: parsed(&written.content_type, "content-type", parse_content_type),
            retry_for: None,
            credentials: StoreCredentials::default(),
        };
        let encryption = of(&written.sse, "sse").map(|text| ServerEncryption::parse(&text));
        let encryption =
            encryption.and_then(|parsed| self.keep(parsed.map_err(|words| usage("--sse", words))));
        StoreSettings { encryption, ..settings }
    }

    /// Returns the settings of the stores of source and target.
    pub(crate) fn stores(
        &mut self,
        (reached, written): (&StoreArguments, &ObjectArguments),
        (source, target): (Option<&Location>, Option<&Location>),
    ) -> (StoreSettings, StoreSettings) {
        let of_source = self.store(reached, written, source);
        // An option that is wrong is wrong for both, and told once.
        let of_target = Self::default().store(reached, written, target);
        let is = |end: Option<&Location>, s3: bool| {
            end.and_then(Location::store).is_some_and(|store| (store.scheme == "s3") == s3)
        };
        match () {
            () if is(source, false) && is(target, true) => (of_source.without_s3(), of_target),
            () if is(source, true) && is(target, false) => (of_source, of_target.without_s3()),
            () => (of_source, of_target),
        }
    }
}

fn parse_profile(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && !text.contains(char::is_control);
    is_name
        .then(|| text.to_owned())
        .ok_or("must be the name of a profile in ~/.aws/config or ~/.aws/credentials")
}
