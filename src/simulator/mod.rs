//! Floor 5: a fake Gemini API, as a state model behind HTTP.
