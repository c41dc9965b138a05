//! The providers' conventions for metadata, and their limits.

/// The names of metadata that a provider's tools share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataConvention {
    /// S3: DataSync, FSx for Lustre, File Gateway.
    S3,
    /// Azure: AzCopy.
    Azure,
    /// Google Cloud Storage: gcloud, gsutil, Storage Transfer Service.
    Gcs,
}

impl MetadataConvention {
    /// Returns the maximum size of the metadata of an object. Each name counts with its prefix.
    pub const fn bytes_max(self) -> usize {
        match self {
            Self::S3 => 2048,
            Self::Azure | Self::Gcs => 8192,
        }
    }

    /// Returns the maximum length of one value.
    pub const fn value_bytes_max(self) -> usize {
        match self {
            Self::S3 | Self::Azure => self.bytes_max(),
            Self::Gcs => 4096,
        }
    }

    /// Returns the prefix of names in requests.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "x-amz-meta-",
            Self::Azure => "x-ms-meta-",
            Self::Gcs => "x-goog-meta-",
        }
    }

    /// Returns the name of the value with the extended attributes.
    pub(crate) fn attributes_name(self) -> String {
        self.own_name("hakobu-attributes")
    }

    /// Returns a name of hakobu's own. Azure takes no hyphens.
    pub(super) fn own_name(self, words: &str) -> String {
        match self {
            Self::S3 | Self::Gcs => words.to_owned(),
            Self::Azure => words.replace('-', "_"),
        }
    }
}
