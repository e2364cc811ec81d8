/* Which part of a copy's time is the client's own? An S3 server that costs next to nothing.
 *
 * It throws bodies away and keeps what a careful client asks for afterwards: size, ETag, checksum
 * and metadata of each object, in memory. It answers PutObject and CompleteMultipartUpload with
 * If-None-Match, UploadPart, ListParts, ListMultipartUploads, AbortMultipartUpload, HeadObject,
 * ListObjectsV2 with paging, DeleteObject. It refuses a wrong CRC64NVME of a body of up to 1 MiB and
 * a wrong full-object CRC64NVME at Complete; of larger bodies it believes the checksum given, and
 * drops them in the kernel. It checks no signature. GET of an object is not there. What is PUT to a
 * key with POISON in it is answered with 500, always.
 *
 * DELAY_MS stands for a link that far away: a connection waits so long before it is served, and each
 * request before it is answered. Nothing else is slower, and bytes come as fast as ever.
 *
 *   cc -O2 -pthread -o sink sink.c -lssl -lcrypto
 *   ./sink PORT [DELAY_MS [CERTIFICATE KEY]]     (listens on 127.0.0.1 alone)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 1 << 17, CHECKED = 1 << 20, LINE = 1 << 14, HEADERS = 1 << 13, SLOTS = 1 << 20 };

#define POISON "/raw/poison/"

/* ---- CRC64NVME: eight bytes a step; two checksums combine to that of both bodies together */

static uint64_t table[8][256], grow[64][64]; /* grow[k]: 2^k zero bytes appended */

static uint64_t times(const uint64_t matrix[64], uint64_t vector) {
  uint64_t sum = 0;
  for (int i = 0; vector; vector >>= 1, i++)
    if (vector & 1) sum ^= matrix[i];
  return sum;
}

static void crc_init(void) {
  for (int n = 0; n < 256; n++) {
    uint64_t c = n;
    for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x9A6C9329AC4BC9B5ULL : c >> 1;
    table[0][n] = c;
  }
  for (int n = 0; n < 256; n++)
    for (int k = 1; k < 8; k++)
      table[k][n] = table[0][table[k - 1][n] & 255] ^ (table[k - 1][n] >> 8);
  for (int bit = 0; bit < 64; bit++) grow[0][bit] = table[0][(1ULL << bit) & 255] ^ ((1ULL << bit) >> 8);
  for (int k = 1; k < 64; k++)
    for (int bit = 0; bit < 64; bit++) grow[k][bit] = times(grow[k - 1], grow[k - 1][bit]);
}

static uint64_t crc64(const unsigned char *p, size_t n) {
  uint64_t c = ~0ULL, word;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&word, p, 8);
    c ^= word;
    c = table[7][c & 255] ^ table[6][(c >> 8) & 255] ^ table[5][(c >> 16) & 255] ^
        table[4][(c >> 24) & 255] ^ table[3][(c >> 32) & 255] ^ table[2][(c >> 40) & 255] ^
        table[1][(c >> 48) & 255] ^ table[0][c >> 56];
  }
  while (n--) c = table[0][(c ^ *p++) & 255] ^ (c >> 8);
  return ~c;
}

static uint64_t crc_combine(uint64_t first, uint64_t second, uint64_t second_size) {
  for (int k = 0; second_size; second_size >>= 1, k++)
    if (second_size & 1) first = times(grow[k], first);
  return first ^ second;
}

static bool crc_decode(const char *text, uint64_t *crc) {
  unsigned char raw[16];
  if (strlen(text) != 12 || EVP_DecodeBlock(raw, (const unsigned char *)text, 12) != 9) return false;
  *crc = 0;
  for (int i = 0; i < 8; i++) *crc = *crc << 8 | raw[i];
  return true;
}

static void crc_encode(uint64_t crc, char *text) {
  unsigned char raw[8];
  for (int i = 7; i >= 0; i--, crc >>= 8) raw[i] = crc & 255;
  EVP_EncodeBlock((unsigned char *)text, raw, 8);
}

/* ---- what is kept: objects by key, uploads by id; one lock, held for a lookup at a time */

typedef struct {
  uint64_t size, crc;
  bool checked; /* crc is known */
  char etag[48];
} facts;
typedef struct part {
  struct part *next;
  int number;
  facts facts;
} part;
typedef struct object {
  struct object *next;
  facts facts;
  char *meta, *key;
} object;
typedef struct upload {
  struct upload *next;
  uint64_t id;
  char *key, *meta;
  part *parts; /* by number */
} upload;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects[SLOTS], **sorted;
static upload *uploads;
static size_t object_count, sorted_count;
static bool stale;
static uint64_t last_id;

static object **slot(const char *key) {
  uint64_t hash = 1469598103934665603ULL;
  for (const char *p = key; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211ULL;
  object **at = &objects[(hash ^ hash >> 29) % SLOTS];
  while (*at && strcmp((*at)->key, key)) at = &(*at)->next;
  return at;
}

/* False when the object is there and must not be. */
static bool put_object(const char *key, const facts *given, const char *meta, bool absent) {
  object **at = slot(key), *it = *at;
  if (it && absent) return false;
  if (!it) {
    it = *at = calloc(1, sizeof *it);
    it->key = strdup(key);
    object_count++;
    stale = true;
  }
  free(it->meta);
  it->meta = strdup(meta);
  it->facts = *given;
  return true;
}

static void delete_object(const char *key) {
  object **at = slot(key), *it = *at;
  if (!it) return;
  *at = it->next;
  free(it->key), free(it->meta), free(it);
  object_count--;
  stale = true;
}

static upload **find_upload(uint64_t id) {
  upload **at = &uploads;
  while (*at && (*at)->id != id) at = &(*at)->next;
  return at;
}

static void drop_upload(upload **at) {
  upload *it = *at;
  *at = it->next;
  for (part *p = it->parts, *next; p; p = next) next = p->next, free(p);
  free(it->key), free(it->meta), free(it);
}

static void put_part(upload *to, int number, const facts *given) {
  part **at = &to->parts;
  while (*at && (*at)->number < number) at = &(*at)->next;
  if (!*at || (*at)->number != number) {
    part *fresh = calloc(1, sizeof *fresh);
    fresh->next = *at, fresh->number = number, *at = fresh;
  }
  (*at)->facts = *given;
}

static facts whole(const upload *of) {
  facts all = {.checked = true};
  unsigned char digest[16];
  int count = 0;
  EVP_MD_CTX *md5 = EVP_MD_CTX_new();
  EVP_DigestInit(md5, EVP_md5());
  for (const part *p = of->parts; p; p = p->next, count++) {
    all.crc = count ? crc_combine(all.crc, p->facts.crc, p->facts.size) : p->facts.crc;
    all.checked &= p->facts.checked;
    all.size += p->facts.size;
    for (int i = 0; i < 16; i++) {
      unsigned byte = 0;
      sscanf(p->facts.etag + 2 * i, "%2x", &byte);
      digest[i] = byte;
    }
    EVP_DigestUpdate(md5, digest, 16);
  }
  EVP_DigestFinal(md5, digest, NULL);
  EVP_MD_CTX_free(md5);
  for (int i = 0; i < 16; i++) sprintf(all.etag + 2 * i, "%02x", digest[i]);
  sprintf(all.etag + 32, "-%d", count);
  return all;
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(object *const *)a)->key, (*(object *const *)b)->key);
}

static void sort_objects(void) {
  sorted = realloc(sorted, (object_count + 1) * sizeof *sorted);
  sorted_count = 0;
  for (size_t i = 0; i < SLOTS; i++)
    for (object *it = objects[i]; it; it = it->next) sorted[sorted_count++] = it;
  qsort(sorted, sorted_count, sizeof *sorted, by_key);
  stale = false;
}

static size_t first_from(const char *key) { /* index of the first object not before key */
  size_t low = 0, high = sorted_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(sorted[middle]->key, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* ---- HTTP */

static SSL_CTX *tls; /* NULL for plain HTTP */
static useconds_t delay_us;

typedef struct {
  int socket;
  SSL *secured; /* NULL for plain HTTP */
  size_t at, end;
  char buffer[BUFFER], line[LINE], meta[HEADERS];
  char method[16], path[LINE], query[LINE]; /* path is decoded: /bucket/key */
  char content_md5[64], checksum[64];
  unsigned char body[CHECKED + 1];
  size_t body_size; /* bytes kept in body */
  uint64_t size;    /* bytes sent, decoded */
  bool absent, close, chunked;
} request;

static ssize_t receive(request *r) {
  return r->secured ? SSL_read(r->secured, r->buffer, BUFFER) : recv(r->socket, r->buffer, BUFFER, 0);
}

static bool fill(request *r) {
  ssize_t n = receive(r);
  r->at = 0, r->end = n > 0 ? n : 0;
  return n > 0;
}

static int read_line(request *r) { /* its length without the line end, -1 at the end */
  size_t length = 0;
  for (;;) {
    if (r->at == r->end && !fill(r)) return -1;
    char *from = r->buffer + r->at, *end = memchr(from, '\n', r->end - r->at);
    size_t n = end ? (size_t)(end - from + 1) : r->end - r->at;
    if (length + n >= LINE) return -1;
    memcpy(r->line + length, from, n);
    length += n, r->at += n;
    if (!end) continue;
    while (length && strchr("\r\n", r->line[length - 1])) length--;
    r->line[length] = 0;
    return (int)length;
  }
}

static bool read_body(request *r, uint64_t n, bool keep) {
  while (n) {
    size_t here = r->end - r->at;
    if (here) {
      size_t take = here < n ? here : n;
      if (keep && r->body_size + take <= CHECKED) {
        memcpy(r->body + r->body_size, r->buffer + r->at, take);
        r->body_size += take;
      }
      r->at += take, n -= take;
    } else if (keep || n < BUFFER || r->secured) {
      if (!fill(r)) return false;
    } else {
      ssize_t gone = recv(r->socket, NULL, n > 1 << 22 ? 1 << 22 : n, MSG_TRUNC); /* never copied */
      if (gone <= 0) return false;
      n -= gone;
    }
  }
  r->body[r->body_size] = 0;
  return true;
}

static bool read_chunks(request *r) { /* a body whose length nobody said */
  uint64_t n;
  do {
    if (read_line(r) <= 0) return false;
    n = strtoull(r->line, NULL, 16);
  } while (n && read_body(r, n, false) && read_line(r) == 0);
  return n == 0 && read_line(r) == 0;
}

static void percent_decode(char *text) {
  char *to = text;
  for (char *from = text; *from; from++) {
    unsigned byte;
    if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) *to++ = byte, from += 2;
    else *to++ = *from;
  }
  *to = 0;
}

static bool query_value(const char *query, const char *name, char *value) { /* value of LINE bytes */
  size_t length = strlen(name);
  for (const char *p = query; p && *p; p = strchr(p, '&'), p = p ? p + 1 : p)
    if (!strncmp(p, name, length) && strchr("=&", p[length])) {
      p += length + (p[length] == '=');
      size_t n = strcspn(p, "&");
      memcpy(value, p, n), value[n] = 0;
      percent_decode(value);
      return true;
    }
  return false;
}

static bool send_all(request *r, const char *bytes, size_t n) {
  while (n) {
    ssize_t sent = r->secured ? SSL_write(r->secured, bytes, n) : send(r->socket, bytes, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent, n -= sent;
  }
  return true;
}

static bool answer(request *r, int status, const char *headers, const char *body) {
  char head[HEADERS + 512];
  int n = snprintf(head, sizeof head,
                   "HTTP/1.1 %d %s\r\nServer: sink\r\nx-amz-request-id: 0\r\n%s%sContent-Length: %zu\r\n\r\n",
                   status, status < 300 ? "OK" : "Error", headers,
                   *body ? "Content-Type: application/xml\r\n" : "", strlen(body));
  size_t length = strlen(body);
  if (length >= 4096) return send_all(r, head, n) && send_all(r, body, length);
  char both[sizeof head + 4096]; /* one segment: no wait between two */
  memcpy(both, head, n), memcpy(both + n, body, length);
  return send_all(r, both, n + length);
}

static bool refuse(request *r, int status, const char *code) {
  char body[256];
  sprintf(body, "<Error><Code>%s</Code><Message>the sink refuses this</Message></Error>", code);
  return answer(r, status, "", strcmp(r->method, "HEAD") ? body : "");
}

static void header(request *r, uint64_t *length, uint64_t *decoded, bool *expects) {
  char *value = strchr(r->line, ':');
  if (!value) return;
  *value++ = 0;
  while (*value == ' ') value++;
  char *name = r->line;
  if (!strcasecmp(name, "content-length")) *length = strtoull(value, NULL, 10);
  else if (!strcasecmp(name, "x-amz-decoded-content-length")) *decoded = strtoull(value, NULL, 10);
  else if (!strcasecmp(name, "content-md5")) snprintf(r->content_md5, sizeof r->content_md5, "%s", value);
  else if (!strcasecmp(name, "x-amz-checksum-crc64nvme")) snprintf(r->checksum, sizeof r->checksum, "%s", value);
  else if (!strcasecmp(name, "if-none-match")) r->absent = true;
  else if (!strcasecmp(name, "transfer-encoding")) r->chunked = !strcasecmp(value, "chunked");
  else if (!strcasecmp(name, "connection")) r->close = !strcasecmp(value, "close");
  else if (!strcasecmp(name, "expect")) *expects = true;
  else if (!strncasecmp(name, "x-amz-meta-", 11)) {
    size_t used = strlen(r->meta);
    snprintf(r->meta + used, HEADERS - used, "%s: %s\r\n", name, value);
  }
}

static bool read_request(request *r) {
  uint64_t length = 0, decoded = UINT64_MAX;
  bool expects = false;
  int n;
  char target[LINE];
  r->meta[0] = r->content_md5[0] = r->checksum[0] = 0;
  r->body_size = 0, r->absent = r->close = r->chunked = false;
  if (read_line(r) <= 0 || sscanf(r->line, "%15s %16383s", r->method, target) != 2) return false;
  while ((n = read_line(r)) > 0) header(r, &length, &decoded, &expects);
  if (n < 0 || (expects && !send_all(r, "HTTP/1.1 100 Continue\r\n\r\n", 25))) return false;
  char *query = strchr(target, '?');
  strcpy(r->query, query ? query + 1 : "");
  if (query) *query = 0;
  strcpy(r->path, target);
  percent_decode(r->path);
  r->size = decoded != UINT64_MAX ? decoded : length;
  return r->chunked ? read_chunks(r) : read_body(r, length, length <= CHECKED);
}

/* ---- S3 */

/* The facts of a body that came in; false when its checksum is wrong. */
static bool take_facts(request *r, facts *taken) {
  unsigned char raw[32];
  *taken = (facts){.size = r->size};
  taken->checked = crc_decode(r->checksum, &taken->crc);
  if (taken->checked && r->body_size == r->size && crc64(r->body, r->body_size) != taken->crc) return false;
  if (strlen(r->content_md5) == 24 && EVP_DecodeBlock(raw, (unsigned char *)r->content_md5, 24) == 18)
    for (int i = 0; i < 16; i++) sprintf(taken->etag + 2 * i, "%02x", raw[i]);
  else /* 32 digits and a suffix: nobody takes it for an MD5 */
    sprintf(taken->etag, "%032llx-1", (unsigned long long)__atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED));
  return true;
}

static void headers_of(const facts *of, const char *meta, char *out) {
  char crc[16];
  out += sprintf(out, "ETag: \"%s\"\r\n%s", of->etag, meta);
  if (!of->checked) return;
  crc_encode(of->crc, crc);
  sprintf(out, "x-amz-checksum-crc64nvme: %s\r\nx-amz-checksum-type: FULL_OBJECT\r\n", crc);
}

static bool do_put(request *r, uint64_t id, int number) {
  facts taken;
  char headers[HEADERS];
  if (strstr(r->path, POISON)) return refuse(r, 500, "InternalError");
  if (!take_facts(r, &taken)) return refuse(r, 400, "BadDigest");
  pthread_mutex_lock(&lock);
  upload *to = id ? *find_upload(id) : NULL;
  bool kept = id ? to != NULL : put_object(r->path, &taken, r->meta, r->absent);
  if (to) put_part(to, number, &taken);
  pthread_mutex_unlock(&lock);
  if (!kept) return id ? refuse(r, 404, "NoSuchUpload") : refuse(r, 412, "PreconditionFailed");
  headers_of(&taken, "", headers);
  return answer(r, 200, headers, "");
}

static bool do_create(request *r) {
  char body[512];
  upload *fresh = calloc(1, sizeof *fresh);
  fresh->key = strdup(r->path), fresh->meta = strdup(r->meta);
  pthread_mutex_lock(&lock);
  fresh->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  fresh->next = uploads, uploads = fresh;
  pthread_mutex_unlock(&lock);
  sprintf(body, "<InitiateMultipartUploadResult><UploadId>%llu</UploadId></InitiateMultipartUploadResult>",
          (unsigned long long)fresh->id);
  return answer(r, 200, "", body);
}

static bool do_complete(request *r, uint64_t id) {
  uint64_t wanted;
  bool has_wanted = crc_decode(r->checksum, &wanted);
  const char *refused = NULL;
  char body[512], crc[16] = "";
  facts all;
  pthread_mutex_lock(&lock);
  upload **at = find_upload(id);
  if (!*at) refused = "NoSuchUpload";
  else {
    all = whole(*at);
    if (has_wanted && all.checked && all.crc != wanted) refused = "BadDigest";
    else if (!put_object(r->path, &all, (*at)->meta, r->absent)) refused = "PreconditionFailed";
    else drop_upload(at);
  }
  pthread_mutex_unlock(&lock);
  if (refused) return refuse(r, *refused == 'N' ? 404 : *refused == 'B' ? 400 : 412, refused);
  if (all.checked) crc_encode(all.crc, crc);
  sprintf(body,
          "<CompleteMultipartUploadResult><ETag>\"%s\"</ETag><ChecksumCRC64NVME>%s</ChecksumCRC64NVME>"
          "<ChecksumType>FULL_OBJECT</ChecksumType></CompleteMultipartUploadResult>",
          all.etag, crc);
  return answer(r, 200, "", body);
}

static int bucket_length(const request *r) { return (int)strcspn(r->path + 1, "/"); }

static bool do_list_parts(request *r, uint64_t id) {
  size_t size = 0;
  char *body = NULL;
  FILE *out = open_memstream(&body, &size);
  pthread_mutex_lock(&lock);
  upload *of = *find_upload(id);
  fprintf(out, "<ListPartsResult><Bucket>%.*s</Bucket><UploadId>%llu</UploadId><IsTruncated>false</IsTruncated>",
          bucket_length(r), r->path + 1, (unsigned long long)id);
  for (part *p = of ? of->parts : NULL; p; p = p->next)
    fprintf(out, "<Part><PartNumber>%d</PartNumber><ETag>\"%s\"</ETag><Size>%llu</Size></Part>", p->number,
            p->facts.etag, (unsigned long long)p->facts.size);
  fprintf(out, "</ListPartsResult>");
  pthread_mutex_unlock(&lock);
  fclose(out);
  bool sent = of ? answer(r, 200, "", body) : refuse(r, 404, "NoSuchUpload");
  free(body);
  return sent;
}

static bool do_abort(request *r, uint64_t id) {
  pthread_mutex_lock(&lock);
  upload **at = find_upload(id);
  bool there = *at != NULL;
  if (there) drop_upload(at);
  pthread_mutex_unlock(&lock);
  return there ? answer(r, 204, "", "") : refuse(r, 404, "NoSuchUpload");
}

static bool do_head(request *r) {
  char headers[2 * HEADERS], out[4 * HEADERS];
  uint64_t size = 0;
  pthread_mutex_lock(&lock);
  object *it = *slot(r->path);
  if (it) size = it->facts.size, headers_of(&it->facts, it->meta, headers);
  pthread_mutex_unlock(&lock);
  if (!it) return refuse(r, 404, "NoSuchKey");
  int n = sprintf(out,
                  "HTTP/1.1 200 OK\r\nServer: sink\r\nLast-Modified: Sat, 01 Nov 2025 00:00:00 GMT\r\n%s"
                  "Content-Type: binary/octet-stream\r\nContent-Length: %llu\r\n\r\n",
                  headers, (unsigned long long)size);
  return send_all(r, out, n);
}

static void print_escaped(FILE *out, const char *text) {
  for (; *text; text++)
    switch (*text) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    default: fputc(*text, out);
    }
}

static void print_encoded(FILE *out, const char *text) { /* as encoding-type=url asks */
  for (; *text; text++)
    if (isalnum((unsigned char)*text) || strchr("-_.~/", *text)) fputc(*text, out);
    else fprintf(out, "%%%02X", (unsigned char)*text);
}

/* The cursor is the key that the next page begins with. */
static bool do_list(request *r) {
  char prefix[LINE], from[LINE], value[LINE], start[2 * LINE];
  size_t bucket = 1 + bucket_length(r), size = 0, limit = 1000, count = 0;
  if (!query_value(r->query, "prefix", prefix)) *prefix = 0;
  if (!query_value(r->query, "continuation-token", from)) strcpy(from, prefix);
  if (query_value(r->query, "max-keys", value)) limit = strtoul(value, NULL, 10);
  bool encoded = query_value(r->query, "encoding-type", value);
  void (*print)(FILE *, const char *) = encoded ? print_encoded : print_escaped;
  char *body = NULL;
  FILE *out = open_memstream(&body, &size);
  fprintf(out, "<ListBucketResult><Name>%.*s</Name>", bucket_length(r), r->path + 1);
  pthread_mutex_lock(&lock);
  if (stale) sort_objects();
  sprintf(start, "%.*s/%s", (int)bucket, r->path, prefix);
  size_t length = strlen(start), i;
  sprintf(start, "%.*s/%s", (int)bucket, r->path, from);
  for (i = first_from(start); i < sorted_count && count < limit; i++, count++) {
    object *it = sorted[i];
    if (strncmp(it->key + bucket + 1, prefix, length - bucket - 1) || strncmp(it->key, r->path, bucket)) break;
    fprintf(out, "<Contents><Key>");
    print(out, it->key + bucket + 1);
    fprintf(out, "</Key><LastModified>2025-11-01T00:00:00.000Z</LastModified><ETag>\"%s\"</ETag><Size>%llu</Size></Contents>",
            it->facts.etag, (unsigned long long)it->facts.size);
  }
  bool more = count == limit && i < sorted_count && !strncmp(sorted[i]->key + bucket + 1, prefix, length - bucket - 1);
  if (more) {
    fprintf(out, "<NextContinuationToken>");
    print_escaped(out, sorted[i]->key + bucket + 1);
    fprintf(out, "</NextContinuationToken>");
  }
  pthread_mutex_unlock(&lock);
  fprintf(out, "%s<KeyCount>%zu</KeyCount><IsTruncated>%s</IsTruncated></ListBucketResult>",
          encoded ? "<EncodingType>url</EncodingType>" : "", count, more ? "true" : "false");
  fclose(out);
  bool sent = answer(r, 200, "", body);
  free(body);
  return sent;
}

static bool do_list_uploads(request *r) {
  char prefix[LINE];
  size_t bucket = 1 + bucket_length(r), size = 0;
  if (!query_value(r->query, "prefix", prefix)) *prefix = 0;
  char *body = NULL;
  FILE *out = open_memstream(&body, &size);
  fprintf(out, "<ListMultipartUploadsResult><Bucket>%.*s</Bucket><IsTruncated>false</IsTruncated>",
          bucket_length(r), r->path + 1);
  pthread_mutex_lock(&lock);
  for (upload *it = uploads; it; it = it->next) {
    if (strncmp(it->key, r->path, bucket) || strncmp(it->key + bucket + 1, prefix, strlen(prefix))) continue;
    fprintf(out, "<Upload><Key>");
    print_escaped(out, it->key + bucket + 1);
    fprintf(out, "</Key><UploadId>%llu</UploadId></Upload>", (unsigned long long)it->id);
  }
  pthread_mutex_unlock(&lock);
  fprintf(out, "</ListMultipartUploadsResult>");
  fclose(out);
  bool sent = answer(r, 200, "", body);
  free(body);
  return sent;
}

static bool serve_bucket(request *r) {
  char value[LINE];
  if (strcmp(r->method, "GET")) return answer(r, 200, "", "");
  if (query_value(r->query, "location", value)) return answer(r, 200, "", "<LocationConstraint/>");
  if (query_value(r->query, "versioning", value)) return answer(r, 200, "", "<VersioningConfiguration/>");
  if (query_value(r->query, "uploads", value)) return do_list_uploads(r);
  return do_list(r);
}

static bool serve_object(request *r) {
  char value[LINE], number[LINE] = "0";
  uint64_t id = query_value(r->query, "uploadId", value) ? strtoull(value, NULL, 10) : 0;
  query_value(r->query, "partNumber", number);
  if (!strcmp(r->method, "PUT")) return do_put(r, id, atoi(number));
  if (!strcmp(r->method, "HEAD")) return do_head(r);
  if (!strcmp(r->method, "POST")) return id ? do_complete(r, id) : do_create(r);
  if (!strcmp(r->method, "GET")) return id ? do_list_parts(r, id) : refuse(r, 501, "NotImplemented");
  if (id) return do_abort(r, id);
  pthread_mutex_lock(&lock);
  delete_object(r->path);
  pthread_mutex_unlock(&lock);
  return answer(r, 204, "", "");
}

static void pause_for_link(void) {
  if (delay_us) usleep(delay_us); /* not even a sleep of nothing is free */
}

static void *serve(void *socket) {
  request *r = calloc(1, sizeof *r);
  int one = 1;
  r->socket = (int)(intptr_t)socket;
  setsockopt(r->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  pause_for_link();
  if (tls) {
    r->secured = SSL_new(tls);
    SSL_set_fd(r->secured, r->socket);
    if (SSL_accept(r->secured) <= 0) goto gone;
    pause_for_link();
  }
  while (read_request(r)) {
    pause_for_link();
    char *key = strchr(r->path + 1, '/');
    if (!(key && key[1] ? serve_object(r) : serve_bucket(r)) || r->close) break;
  }
gone:
  if (r->secured) SSL_free(r->secured);
  close(r->socket);
  free(r);
  return NULL;
}

static bool secure(const char *certificate, const char *key) {
  tls = SSL_CTX_new(TLS_server_method());
  return SSL_CTX_use_certificate_chain_file(tls, certificate) == 1 && SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1;
}

int main(int argc, char **argv) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  if (argc < 2 || argc == 4 || argc > 5) return fprintf(stderr, "usage: sink PORT [DELAY_MS [CERTIFICATE KEY]]\n"), 2;
  if (argc > 2) delay_us = 1000 * atoi(argv[2]);
  if (argc > 4 && !secure(argv[3], argv[4])) return fprintf(stderr, "sink: no such certificate or key\n"), 1;
  signal(SIGPIPE, SIG_IGN);
  crc_init();
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) return perror("sink"), 1;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&small, 512 * 1024);
  for (;;) {
    int client = accept(listener, NULL, NULL);
    pthread_t thread;
    if (client >= 0 && pthread_create(&thread, &small, serve, (void *)(intptr_t)client)) close(client);
  }
}
