/*
 * How GPT-2 vocabularies write bytes as characters: bytes that are printable in Latin-1 stand for themselves,
 * the others for U+0100, U+0101, ... in order. Thread: any.
 */
#ifndef MODEL_SPELLING_H
#define MODEL_SPELLING_H

#include <stdint.h>

/* Character that a byte is written as. */
uint32_t spelling_of_byte(uint8_t byte);

/* Byte that a character stands for, or -1. */
int spelling_byte(uint32_t codepoint);

#endif
