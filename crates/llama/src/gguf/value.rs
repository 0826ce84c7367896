//! Metadata values, borrowed from the header's bytes.

use crate::error::{Error, Result};

/// The type of a metadata value, numbered as in the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    pub(crate) fn from_id(id: u32) -> Option<Self> {
        use ValueType::{Array, Bool, F32, F64, I8, I16, I32, I64, String, U8, U16, U32, U64};
        let all = [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64];
        all.get(usize::try_from(id).ok()?).copied()
    }

    /// Bytes of one value; none for strings and arrays, whose length the file states.
    pub(crate) fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// Either float type.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// The bytes of a string, UTF-8 in sound files.
    String(&'a [u8]),
    /// An array of anything but arrays.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// Decodes a value whose extent the reader has checked.
    pub(crate) fn decode(kind: ValueType, bytes: &'a [u8]) -> Self {
        let word = |count: usize| {
            let mut word = [0; 8];
            word[..count].copy_from_slice(&bytes[..count]);
            u64::from_le_bytes(word)
        };
        match kind {
            ValueType::U8 => Self::Unsigned(word(1)),
            ValueType::U16 => Self::Unsigned(word(2)),
            ValueType::U32 => Self::Unsigned(word(4)),
            ValueType::U64 => Self::Unsigned(word(8)),
            ValueType::I8 => Self::Signed(i64::from(word(1) as u8 as i8)),
            ValueType::I16 => Self::Signed(i64::from(word(2) as u16 as i16)),
            ValueType::I32 => Self::Signed(i64::from(word(4) as u32 as i32)),
            ValueType::I64 => Self::Signed(word(8) as i64),
            ValueType::F32 => Self::Float(f64::from(f32::from_bits(word(4) as u32))),
            ValueType::F64 => Self::Float(f64::from_bits(word(8))),
            ValueType::Bool => Self::Bool(word(1) != 0),
            ValueType::String => Self::String(&bytes[8..]),
            ValueType::Array => {
                let kind = ValueType::from_id(word(4) as u32).expect("the reader accepts known element types only");
                let mut count = [0; 8];
                count.copy_from_slice(&bytes[4..12]);
                Self::Array(Array { kind, count: u64::from_le_bytes(count) as usize, bytes: &bytes[12..] })
            }
        }
    }

    /// The value as an unsigned number, from any integer type.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(value),
            Self::Signed(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// The value as text, if it is a string and valid UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// An array value; its elements stay encoded until iterated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    kind: ValueType,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The type of the elements.
    pub fn kind(&self) -> ValueType {
        self.kind
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (kind, mut rest) = (self.kind, self.bytes);
        (0..self.count).map(move |_| {
            let length = match kind.fixed_bytes() {
                Some(length) => length,
                None => {
                    let mut length = [0; 8];
                    length.copy_from_slice(&rest[..8]);
                    8 + u64::from_le_bytes(length) as usize
                }
            };
            let (element, tail) = rest.split_at(length);
            rest = tail;
            Value::decode(kind, element)
        })
    }

    /// The elements as strings.
    ///
    /// # Errors
    /// If they are not strings.
    pub fn strings(&self, key: &str) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>> {
        if self.kind != ValueType::String {
            return Err(Error::invalid(format_args!("{key} is an array of {:?}, not of strings", self.kind)));
        }
        Ok(self.iter().map(|value| match value {
            Value::String(bytes) => bytes,
            _ => unreachable!("the element type was checked"),
        }))
    }
}
