/* What a tokenizer promises for any text, checked; for targets that get a tokenizer one way or another. */
#ifndef FUZZ_CHECK_TEXT_H
#define FUZZ_CHECK_TEXT_H

#include <stdbool.h>

#include "sereno/tokenizer.h"

/*
 * Tokenizes, and checks that the tokens' bytes are the text again and that they stream as valid UTF-8.
 * False when the vocabulary lacks a byte of the text. well_formed: control tokens are spelled like no
 * byte and no merge of the vocabulary, so that none may come out unless asked for.
 */
bool check_text(const sereno_tokenizer *t, const char *text, size_t size, bool parse_special, bool well_formed);

#endif
